# The file of heat-config-agent completes all of its commands.
source (status dirname)/heat-config-agent.fish
