# One run of a hook in a guest: at most once, and whoever asks later learns how it ended. Runs under any /bin/sh.
#   run.sh VERB RUN [ARGUMENT…]
# Not below the folders that a drain hook empties. What is secret lies in memory, what must outlive a restart of the agent on disk; both belong to root alone.
set -eu
umask 077
verb=$1 run=$2
shift 2

memory=/run/bigfleet-provider
if ! grep -q ' /run tmpfs ' /proc/mounts && grep -q ' /dev/shm tmpfs ' /proc/mounts; then
  memory=/dev/shm/bigfleet-provider
fi
disk=/var/lib/bigfleet-provider
secret=$memory/$run
kept=$disk/$run

# A folder that only root can look into, whatever was there before.
private() {
  [ ! -L "$1" ] || rm -f "$1"
  mkdir -p "$1"
  chown 0:0 "$1"
  chmod 700 "$1"
}

case $verb in
  # Makes room for a blob; says where, or how far the run has come.
  begin)
    private "$memory"
    private "$disk"
    private "$kept"
    if [ -e "$kept/lock" ]; then
      echo started
    else
      private "$secret"
      rm -f "$secret/blob" "$secret/blob.part"
      : >"$secret/blob.part"
      echo "$secret/blob.part"
    fi
    ;;
  # Takes over what was written if it is whole: SIZE SHA256.
  seal)
    size=$(wc -c <"$secret/blob.part")
    if [ "$size" -ne "$1" ]; then
      echo "the guest has $size bytes of $1"
      exit 1
    fi
    if command -v sha256sum >/dev/null; then
      sum=$(sha256sum <"$secret/blob.part")
      if [ "${sum%% *}" != "$2" ]; then
        echo "the guest has other bytes than were sent"
        exit 1
      fi
    fi
    mv "$secret/blob.part" "$secret/blob"
    # Where hooks written for the Go provider look.
    ln -sfn "$secret/blob" /opt/bigfleet/bootstrap.blob 2>/dev/null || :
    echo "$secret/blob"
    ;;
  # Starts a program, once, unless its blob is lost: COUNT, so many NAME=VALUE, then the program and its arguments.
  start)
    private "$disk"
    private "$kept"
    if [ -e "$kept/lock" ]; then
      echo started
      exit 0
    fi
    # A guest that restarted meanwhile has lost it, and a hook must not run without.
    for word in "$@"; do
      case $word in
        BIGFLEET_BLOB=*)
          if [ ! -e "${word#BIGFLEET_BLOB=}" ]; then
            echo lost
            exit 0
          fi
          ;;
      esac
    done
    cat /proc/sys/kernel/random/boot_id >"$kept/boot"
    # Made by one alone; says who, because until the program runs it has no process of its own to be asked for.
    if ! (set -C && echo $$ >"$kept/lock") 2>/dev/null; then
      echo started
      exit 0
    fi
    # In a file, with its arguments: on its way through systemd-run each `$` would be taken for a variable of systemd's.
    {
      printf 'set --'
      for word in "$@"; do
        printf " '%s'" "$(printf '%s' "$word" | sed "s/'/'\\\\''/g")"
      done
      printf "\nkept='%s'\n" "$kept"
      cat <<'RUNNER'
umask 022
count=$1
shift
while [ "$count" -gt 0 ]; do
  export "$1"
  shift
  count=$((count - 1))
done
cd /
echo $$ >"$kept/pid.part"
mv "$kept/pid.part" "$kept/pid"
: >"$kept/log"
"$@" </dev/null >>"$kept/log" 2>&1 &
hook=$!
# Whatever it prints, a few megabytes are kept at most.
while kill -0 $hook 2>/dev/null; do
  if [ "$(wc -c <"$kept/log")" -gt 4194304 ]; then
    tail -c 65536 "$kept/log" >"$kept/log.old"
    : >"$kept/log"
  fi
  sleep 1
done &
wait $hook
code=$?
echo $code >"$kept/code.part"
mv "$kept/code.part" "$kept/code"
RUNNER
    } >"$kept/runner"
    # Beside the agent, not below it: a restart of the agent must not end the hook.
    if [ -d /run/systemd/system ] && command -v systemd-run >/dev/null; then
      systemd-run --quiet --collect --unit="bigfleet-$run" --property=KillMode=process /bin/sh "$kept/runner"
    else
      setsid /bin/sh "$kept/runner" </dev/null >/dev/null 2>&1 &
    fi
    tries=0
    while [ ! -s "$kept/pid" ] && [ $tries -lt 100 ]; do
      sleep 0.1
      tries=$((tries + 1))
    done
    echo started
    ;;
  # How it stands: none, running, gone, rebooted, or code=N.
  poll)
    if [ ! -e "$kept/lock" ]; then
      echo none
    elif [ -s "$kept/code" ]; then
      echo "code=$(cat "$kept/code")"
    elif [ "$(cat "$kept/boot")" != "$(cat /proc/sys/kernel/random/boot_id)" ]; then
      echo rebooted
    elif kill -0 "$(cat "$kept/pid" 2>/dev/null || echo none)" 2>/dev/null; then
      echo running
    elif [ ! -s "$kept/pid" ] && { [ ! -s "$kept/lock" ] || kill -0 "$(cat "$kept/lock")" 2>/dev/null; }; then
      # It is being started.
      echo running
    elif [ -s "$kept/code" ]; then
      echo "code=$(cat "$kept/code")"
    else
      echo gone
    fi
    ;;
  # The end of what it printed: COUNT bytes.
  tail)
    cat "$kept/log.old" "$kept/log" 2>/dev/null | tail -c "$1" || :
    ;;
  # Ends it, hard.
  stop)
    pid=$(cat "$kept/pid" 2>/dev/null) && kill -9 -- "-$pid" 2>/dev/null || :
    ;;
  # Forgets the secret, and with it where hooks of the Go provider look.
  forget)
    rm -rf "$secret"
    [ ! -L /opt/bigfleet/bootstrap.blob ] || rm -f /opt/bigfleet/bootstrap.blob
    ;;
  # Removes every trace of every run.
  clear)
    rm -rf "$memory" "$disk"
    [ ! -L /opt/bigfleet/bootstrap.blob ] || rm -f /opt/bigfleet/bootstrap.blob
    ;;
esac
