"""Files from elsewhere: archives are unpacked within bounds, and what a deployment asks for is fetched and verified."""
