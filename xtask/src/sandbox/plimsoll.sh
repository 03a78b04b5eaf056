#!/bin/bash
# Stands for plimsoll. What goes on until Ctrl-C goes on in the background, until something takes its place; the caller goes on
# when it has said where it is. With IS_BRIEF, what measures or watches is made short.
set -eu

in_background() {
    role=$1
    shift
    said=$SANDBOX/running/$role
    if [ -e "$said.pid" ]; then
        kill "$(cat "$said.pid")" 2> /dev/null || true
        while kill -0 "$(cat "$said.pid")" 2> /dev/null; do
            sleep 0.05
        done
    fi
    # What an earlier one has said is not taken for this one's word.
    : > "$said.out"
    setsid "$PLIMSOLL_PROGRAM" "$@" > "$said.out" 2> "$said.log" < /dev/null &
    echo $! > "$said.pid"
    until [ -s "$said.out" ]; do
        if ! kill -0 $! 2> /dev/null; then
            cat "$said.log"
            exit 1
        fi
        sleep 0.05
    done
    cat "$said.out"
}

# The arguments, and of these options those that are not among them.
more=()
unless_given() {
    case " ${words[*]} " in
        *" $1 "* | *" $1="*) ;;
        *) more+=("$@") ;;
    esac
}

words=("$@")
case "${1-} ${2-}" in
    *" --help" | *" -h") ;;
    "serve "*) in_background server "$@"; exit ;;
    "export "*) in_background server "$@"; exit ;;
    "agent "*) in_background agent "$@"; exit ;;
esac
if [ "$IS_BRIEF" ]; then
    case "${1-} ${2-}" in
        "demo "*) more=(--once --time 3s) ;;
        "volume watch") unless_given --count 2 ;;
        "bench load")
            unless_given --time 300ms
            unless_given --size 1m
            ;;
        "bench run")
            for option in "--preset quick" "--repetitions 1"; do
                unless_given $option
            done
            unless_given --working-set 48MiB
            # One table is enough.
            case "$3" in
                gcnv-scale-out | sizing) unless_given --series "8 KiB random" ;;
            esac
            # A second may be too short for the mix that is asked for; then once more, and for longer.
            same=("${more[@]}")
            for seconds in 1 4 4; do
                more=("${same[@]}")
                unless_given --time $seconds
                "$PLIMSOLL_PROGRAM" "${words[@]}" "${more[@]}" && exit
            done
            exit 1
            ;;
        "bench compare")
            # Short measurements on a busy machine may not be comparable: no fault of the document.
            "$PLIMSOLL_PROGRAM" "$@" || [ $? = 2 ]
            exit
            ;;
        "size "*)
            words=("${@/60s/2s}")
            # A short measurement on a busy machine may find too little for the example: no fault of the document.
            case " $* " in
                *" --measured "*) "$PLIMSOLL_PROGRAM" "$@" || [ $? = 3 ]; exit ;;
            esac
            ;;
    esac
fi
exec "$PLIMSOLL_PROGRAM" "${words[@]}" "${more[@]}"
