# Completion for fish: heat-config-agent completion fish | source
function __heat_config_agent
    set -l words (commandline -opc)
    set -l token (commandline -ct)
    set -l plain (string unescape -- $token; or string trim --left --chars "\"'" -- $token)
    set -l agent (string replace -r 'heat-config-[a-z]+$' heat-config-agent -- $words[1])
    set agent (string replace -r '^~/' "$HOME/" -- $agent)
    set -l answer (command $agent __complete $words "$plain" 2>/dev/null)
    set -q answer[1]; or return
    set -l about (string split \t -- $answer[-1])
    if test $about[1] = :words
        string join \n -- $answer[1..-2]
        return
    end
    set -l rest (string sub --start (math 1 + (string length -- "$about[2]")) -- $token)
    set -l names (complete -C "'' $rest" | string match -r '^[^\t]+')
    set -l meant (string replace -a ' ' '|' -- "$about[3]")
    set -l pattern '/$'
    test -z "$meant"; or set pattern "(/|\.($meant))\$"
    if test $about[1] = :folders; or begin; test -n "$meant"; and string match -q -r -- $pattern $names; end
        set names (string match -r -- ".*$pattern" $names | string match -e -r -- $pattern)
    end
    for name in $names
        string match -q -- "$rest*" $name; and echo "$about[2]$name"
    end
end
for command in heat-config-agent heat-config-apply heat-config-hook
    complete -c $command -f -a '(__heat_config_agent)'
end
