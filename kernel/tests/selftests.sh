# Runs in the guest of kernel/selftests: the kernel's own tests of memory management, one after the
# other; $OUT/results has a line NAME STATUS FAILED for each, with the number of its parts that failed.
mount -t debugfs none /sys/kernel/debug 2>/dev/null
mkdir -p /dev/shm /mnt
mount -t tmpfs none /dev/shm
mount -t tmpfs none /tmp 2>/dev/null
echo 1 >/proc/sys/vm/overcommit_memory

# run NAME [ARGUMENT]...: of a test that takes too long, the status is 143.
run() {
    log=$OUT/$(echo "$*" | tr ' /' '_').log
    case $1 in *.sh) shell=bash ;; *) shell= ;; esac
    # shellcheck disable=SC2086 # nothing or a shell
    (cd /in/mm && timeout 240 $shell "./$@") </dev/null >"$log" 2>&1
    status=$?
    echo "$(echo "$*" | tr ' ' '~') $status $(grep -c '^not ok' "$log")" >>$OUT/results
}
for name in $(cat /in/tests); do
    # What the tests of huge pages find when they begin.
    case $name in *huge* | *thuge* | cow | gup_longterm) pages=128 ;; *) pages=0 ;; esac
    echo $pages >/proc/sys/vm/nr_hugepages
    # shellcheck disable=SC2046 # a command and its arguments
    run $(echo "$name" | tr '~' ' ')
    echo 0 >/proc/sys/vm/nr_hugepages
done
echo "done 0 0" >>$OUT/results
dmesg | grep -E 'BUG|WARNING|Oops|general protection' >$OUT/complaints
exit 0
