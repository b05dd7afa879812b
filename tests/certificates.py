"""A certificate for servers of tests."""

from __future__ import annotations

CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBeDCCAR2gAwIBAgIBATAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAlsb2NhbGhv
c3QwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBQxEjAQBgNVBAMM
CWxvY2FsaG9zdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABB6jG5vpMeIv57xU
ITqvMqcz+FXvntlL7w8OeNkRQX7iv0j5NHWFUODez3gz4Et5P26wqD/atnfrJF0j
bCDlC4OjXjBcMBoGA1UdEQQTMBGHBH8AAAGCCWxvY2FsaG9zdDAPBgNVHRMBAf8E
BTADAQH/MA4GA1UdDwEB/wQEAwIChDAdBgNVHQ4EFgQUeoxs4ze2A+JMGi2Xk9Ct
SDKlVzwwCgYIKoZIzj0EAwIDSQAwRgIhAN1bi8v1Aw+dTV4b2zV+D+QcQnw8z2R+
wWufkd/u4GzrAiEAubmDWDUM2cW6QG5aV1cpFot+W+5e3nbRG4VinaAk4ho=
-----END CERTIFICATE-----
"""
KEY = """\
-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIG9Yab5fLlkzkdYGTL5wwioMo2X1/eGvZ+y1fRidWl6doAoGCCqGSM49
AwEHoUQDQgAEHqMbm+kx4i/nvFQhOq8ypzP4Ve+e2UvvDw542RFBfuK/SPk0dYVQ
4N7PeDPgS3k/brCoP9q2d+skXSNsIOULgw==
-----END EC PRIVATE KEY-----
"""
"""Of 127.0.0.1 and localhost, signed by itself; for these tests alone, so known to everybody."""
