//! Findings about the fio commands that Filestore and Azure NetApp Files publish.

use bench::fio::{Finding, Jobs, Severity, lint, scenario};
use report::scenario::{Depth, Pattern, Scenario, Stability};

/// A client's 128 GiB, as in the published setups.
const MEMORY: u64 = 128 << 30;

const FILESTORE_SEQUENTIAL_WRITE: &str = "fio --ioengine=sync --direct=0 \\
    --fsync_on_close=1 --randrepeat=0 --nrfiles=1 --name=seqwrite --rw=write \\
    --bs=1m --size=20G --end_fsync=1 --fallocate=none  --overwrite=0 --numjobs=1 \\
    --directory=/mnt/gcfs --loops=10";
const FILESTORE_RANDOM_WRITE: &str = "fio --ioengine=sync --direct=0 \\
    --fsync_on_close=1 --randrepeat=0 --nrfiles=1 --name=randwrite --rw=randwrite \\
    --bs=4K --size=1G --end_fsync=1 --fallocate=none  --overwrite=0 --numjobs=80 \\
    --sync=1 --directory=/mnt/standard --loops=10";
const FILESTORE_SEQUENTIAL_READ: &str = "fio --ioengine=sync --direct=0 \\
    --fsync_on_close=1 --randrepeat=0 --nrfiles=1 --name=seqread --rw=read \\
    --bs=1m --size=240G --end_fsync=1 --fallocate=none  --overwrite=0 --numjobs=1 \\
    --directory=/mnt/ssd --invalidate=1 --loops=10";
const FILESTORE_RANDOM_READ: &str = "fio --ioengine=sync --direct=0 \\
    --fsync_on_close=1 --randrepeat=0 --nrfiles=1 --name=randread --rw=randread \\
    --bs=4K --size=1G --end_fsync=1 --fallocate=none  --overwrite=0 --numjobs=20 \\
    --sync=1 --invalidate=1 --directory=/mnt/standard  --loops=10";
const ANF_RANDOM_READ: &str = "fio --name=8krandomreads --rw=randread --direct=1 --ioengine=libaio --bs=8k \
    --numjobs=4 --iodepth=128 --size=4G --runtime=600 --group_reporting";
const ANF_RANDOM_WRITE: &str = "fio --name=8krandomwrites --rw=randwrite --direct=1 --ioengine=libaio --bs=8k \
    --numjobs=4 --iodepth=128 --size=4G --runtime=600 --group_reporting";
const ANF_SEQUENTIAL_READ: &str = "fio --name=64kseqreads --rw=read --direct=1 --ioengine=libaio --bs=64k \
    --numjobs=4 --iodepth=128 --size=4G --runtime=600 --group_reporting";
const ANF_SEQUENTIAL_WRITE: &str = "fio --name=64kseqwrites --rw=write --direct=1 --ioengine=libaio --bs=64k \
    --numjobs=4 --iodepth=128 --size=4G --runtime=600 --group_reporting";

fn findings(command: &str) -> Vec<Finding> {
    lint(&Jobs::from_command(command).unwrap(), Some(MEMORY))
}

fn codes(command: &str) -> Vec<&'static str> {
    findings(command).iter().map(|finding| finding.code).collect()
}

fn text_of(command: &str, code: &str) -> String {
    findings(command).iter().find(|finding| finding.code == code).unwrap().text.clone()
}

#[test]
fn every_published_command_is_understood_whole() {
    let all = [
        (FILESTORE_SEQUENTIAL_WRITE, Pattern::Sequential, 1 << 20, 0, 1, 1, 20 << 30, Stability::Unstable),
        (FILESTORE_RANDOM_WRITE, Pattern::Shuffled, 4096, 0, 80, 1, 80 << 30, Stability::FileSync),
        (FILESTORE_SEQUENTIAL_READ, Pattern::Sequential, 1 << 20, 100, 1, 1, 240 << 30, Stability::Unstable),
        (FILESTORE_RANDOM_READ, Pattern::Shuffled, 4096, 100, 20, 1, 20 << 30, Stability::FileSync),
        (ANF_RANDOM_READ, Pattern::Shuffled, 8192, 100, 4, 128, 16 << 30, Stability::Unstable),
        (ANF_RANDOM_WRITE, Pattern::Shuffled, 8192, 0, 4, 128, 16 << 30, Stability::Unstable),
        (ANF_SEQUENTIAL_READ, Pattern::Sequential, 65_536, 100, 4, 128, 16 << 30, Stability::Unstable),
        (ANF_SEQUENTIAL_WRITE, Pattern::Sequential, 65_536, 0, 4, 128, 16 << 30, Stability::Unstable),
    ];
    for (command, pattern, block, percent, jobs, depth, working_set, stability) in all {
        let read = Jobs::from_command(command).unwrap();
        assert_eq!(read.jobs[0].unknown, [""; 0], "{command}");
        let (equivalent, differences) = scenario(&read);
        let series = &equivalent.series[0];
        assert_eq!((series.pattern, &series.blocks, &series.reads), (pattern, &vec![block], &vec![percent]));
        assert_eq!((series.jobs, &series.depths), (jobs, &Depth::Fixed(vec![depth])));
        assert_eq!((series.working_set, series.stability), (working_set, stability));
        assert!(!differences.is_empty());
        assert_eq!(toml::to_string(&equivalent).unwrap().parse::<Scenario>().unwrap(), equivalent);
    }
}

#[test]
fn findings_about_filestore_commands() {
    assert_eq!(
        codes(FILESTORE_SEQUENTIAL_WRITE),
        [
            "buffered-writes",
            "ends-by-size",
            "no-warm-up",
            "loops",
            "fits-in-client-memory",
            "allocation",
            "randrepeat-is-no-cache-switch",
            "repeated-data",
        ]
    );
    assert_eq!(
        codes(FILESTORE_RANDOM_WRITE),
        [
            "ends-by-size",
            "no-warm-up",
            "loops",
            "fits-in-client-memory",
            "allocation",
            "randrepeat-is-no-cache-switch",
            "buffered-writes",
            "repeated-data",
            "one-at-a-time",
            "no-group-reporting",
        ]
    );
    assert_eq!(
        codes(FILESTORE_SEQUENTIAL_READ),
        [
            "buffered-reads",
            "ends-by-size",
            "no-warm-up",
            "loops",
            "fits-in-client-memory",
            "fits-in-server-memory",
            "randrepeat-is-no-cache-switch",
            "read-after-layout",
            "no-effect-on-reads",
            "one-at-a-time",
        ]
    );
    assert_eq!(
        codes(FILESTORE_RANDOM_READ),
        [
            "buffered-reads",
            "ends-by-size",
            "no-warm-up",
            "loops",
            "fits-in-client-memory",
            "fits-in-server-memory",
            "randrepeat-is-no-cache-switch",
            "read-after-layout",
            "no-effect-on-reads",
            "one-at-a-time",
            "no-group-reporting",
        ]
    );
    assert!(text_of(FILESTORE_RANDOM_READ, "no-effect-on-reads").contains("sync, end_fsync, fsync_on_close"));
    assert!(text_of(FILESTORE_RANDOM_READ, "randrepeat-is-no-cache-switch").contains("client's cache stays"));
}

#[test]
fn findings_about_azure_commands() {
    let reads = [
        "runtime-without-time-based",
        "no-warm-up",
        "same-places",
        "fits-in-server-memory",
        "read-after-layout",
    ];
    assert_eq!(codes(ANF_RANDOM_READ), reads);
    let writes = [
        "runtime-without-time-based",
        "no-warm-up",
        "same-places",
        "allocation",
        "writes-not-flushed",
        "repeated-data",
    ];
    assert_eq!(codes(ANF_RANDOM_WRITE), writes);
    let without_places = |codes: &[&'static str]| {
        codes.iter().copied().filter(|code| *code != "same-places").collect::<Vec<_>>()
    };
    assert_eq!(codes(ANF_SEQUENTIAL_READ), without_places(&reads));
    assert_eq!(codes(ANF_SEQUENTIAL_WRITE), without_places(&writes));
    let ends = text_of(ANF_RANDOM_READ, "runtime-without-time-based");
    assert!(
        ends.contains("4 jobs × 4 GiB end when 16 GiB are done: after about 10 s at 200000 × 8 KiB"),
        "{ends}"
    );
}

#[test]
fn every_other_finding_has_its_cause() {
    for (options, code, severity) in [
        ("--ioengine=libaio --iodepth=32", "depth-without-effect", Severity::Wrong),
        ("--iodepth=8", "depth-without-effect", Severity::Wrong),
        ("--rw=write --direct=1 --ioengine=libaio --sync=1", "sync-with-libaio", Severity::Doubtful),
        ("--rw=write", "writes-not-flushed", Severity::Wrong),
        ("--rw=write --direct=1", "writes-not-flushed", Severity::Note),
        ("--filename=f --numjobs=2", "one-file-for-all", Severity::Doubtful),
        ("--rw=write --zero_buffers", "compressible-data", Severity::Wrong),
        ("--rw=write --buffer_compress_percentage=50", "compressible-data", Severity::Wrong),
        ("--rw=randread --norandommap", "places-drawn-anew", Severity::Note),
        ("--rate_iops=100", "latency-under-rate", Severity::Doubtful),
        ("--time_based", "time-based-without-runtime", Severity::Wrong),
        ("--numjobs=2", "no-group-reporting", Severity::Note),
        ("--odd=1", "unknown-option", Severity::Doubtful),
        ("--offset=1m", "unknown-option", Severity::Doubtful),
        ("--runtime=5min", "not-as-written", Severity::Wrong),
        ("--offset=1.5g", "not-as-written", Severity::Wrong),
        ("--bs=4KiB", "not-as-written", Severity::Wrong),
        ("--hipri --rw=randwrite", "option-of-another-engine", Severity::Wrong),
    ] {
        let found = findings(&format!("fio --name=a --size=1g {options}"));
        let found = found.iter().find(|finding| finding.code == code);
        assert_eq!(found.map(|finding| finding.severity), Some(severity), "{options}");
        assert!(found.is_some_and(|finding| !finding.text.is_empty() && !finding.better.is_empty()));
    }
}

#[test]
fn option_behind_a_switch_counts() {
    let command = "fio --name=a --size=1g --ioengine=io_uring --direct=1 --hipri --rw=randwrite";
    let job = Jobs::from_command(command).unwrap().jobs.remove(0);
    assert!(job.is_random && job.writes() && !job.reads(), "{job:?}");
    assert_eq!(job.unknown, ["hipri"]);
    let text = text_of(command, "unknown-option");
    assert!(text.contains("hipri is not known here: the findings and the equivalent ignore it"), "{text}");
    let text = text_of("fio --name=a --size=1g --odd=1", "unknown-option");
    assert!(text.contains("odd=1 is not an option of fio 3.33, which refuses the job"), "{text}");
}

#[test]
fn honest_job_is_left_alone() {
    let command = "fio --name=a --rw=randwrite --bs=8k --size=256G --numjobs=8 --direct=1 --ioengine=libaio --iodepth=16 \
        --time_based --runtime=60 --ramp_time=30 --randrepeat=1 --randseed=7 --overwrite=1 --refill_buffers --end_fsync=1 \
        --group_reporting";
    assert_eq!(codes(command), [""; 0]);
}

#[test]
fn finding_about_several_jobs_is_listed_once() {
    let found = findings("fio --direct=0 --size=1g --name=a --name=b");
    assert!(!found.is_empty() && found.iter().all(|finding| finding.jobs == ["a", "b"]), "{found:?}");
}
