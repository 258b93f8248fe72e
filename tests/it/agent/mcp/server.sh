#!/bin/sh
# A tool server on the Model Context Protocol over standard input and output, in nothing but a shell, so that tests of child
# processes need nothing installed. Every tool behaves as its name says. $1: `mute` answers nothing, `gone` ends at once.
# `record` appends what it receives to the file $2.
[ "$1" = gone ] && exit 3

result() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
text() { result '{"content":[{"type":"text","text":"'"$1"'"}]}'; }
tool() { printf '{"name":"%s","description":"The tool %s.","inputSchema":{"type":"object","properties":{"q":{"type":"string"}}}%s}' "$1" "$1" "$2"; }

while IFS= read -r line; do
    [ "$1" = record ] && printf '%s\n' "$line" >>"$2"
    case $line in
        *'"id":'*) id=${line#*'"id":'}; id=${id%%[,\}]*} ;;
        *) continue ;;
    esac
    [ "$1" = mute ] && continue
    case $line in
        *'"method":"initialize"'*)
            result '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
        *'"method":"tools/list"'*)
            tools=$(tool destroy ',"annotations":{"readOnlyHint":false,"destructiveHint":true}')
            for name in look fail document picture params crash stall huge odd noise error environment process; do
                tools="$tools,$(tool $name '')"
            done
            result "{\"tools\":[$tools]}" ;;
        *'"name":"look"'*) text "seen" ;;
        *'"name":"destroy"'*) echo destroyed >>"$2"; text "destroyed" ;;
        *'"name":"fail"'*) result '{"content":[{"type":"text","text":"no such customer"}],"isError":true}' ;;
        *'"name":"document"'*) result '{"content":[],"structuredContent":{"plan":"gold"}}' ;;
        *'"name":"picture"'*) result '{"content":[{"type":"image","data":"aGk=","mimeType":"image/png"}]}' ;;
        *'"name":"params"'*)
            printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"q is missing"}}\n' "$id" ;;
        *'"name":"error"'*)
            printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"canary-leak"}}\n' "$id" ;;
        *'"name":"crash"'*) exit 3 ;;
        *'"name":"stall"'*) sleep 60 ;;
        *'"name":"huge"'*) text "$(head -c 300000 /dev/zero | tr '\0' x)" ;;
        *'"name":"odd"'*) result '{"poem":"canary-leak"}' ;;
        *'"name":"noise"'*) echo "a line of some library's log"; text "seen" ;;
        *'"name":"environment"'*) text "$(env | cut -d= -f1 | sort | tr '\n' ' ')" ;;
        *'"name":"process"'*) text "$$" ;;
    esac
done
