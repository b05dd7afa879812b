#!/bin/sh
# Installs heat-config-agent at the first boot of an instance, from a package at a URL, unless it is there: a part for
# cloud-init, which runs it in its last stage. README.md beside it has more. To be filled in:
set -eu
url='PACKAGE_URL'
sha256='PACKAGE_SHA256'

if command -v heat-config-agent >/dev/null; then exit; fi
package=/var/cache/heat-config-agent.deb
/usr/lib/apt/apt-helper -qq -o Acquire::Retries=5 download-file "$url" "$package" "SHA256:$sha256"

# It starts when apt is done, not in between: its first deployment may want to install something, too.
policy=/usr/sbin/policy-rc.d
[ ! -e "$policy" ] || policy=$(mktemp) # the image has one, which says what may start
trap 'rm -f "$policy"' EXIT
printf '#!/bin/sh\nexit 101\n' >"$policy"
chmod 755 "$policy"
DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install --quiet --yes "$package"
rm -f "$package" "$policy"
# Where os-collect-config is in force, the package has left the agent disabled.
if systemctl --quiet is-enabled heat-config-agent; then systemctl start heat-config-agent; fi
