"""Files from elsewhere: archives are unpacked within bounds, and the artifacts of a deployment fetched and verified.

In: URLs with digests, or an archive. Out: a folder with these files, or an error; a cache of verified files.
It knows nothing of hooks, of the journal, and of what the files are for.
"""
