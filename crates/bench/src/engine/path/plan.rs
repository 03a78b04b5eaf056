//! Conversion of a job of the benchmark to a job file of fio; refuses what fio cannot do.

use std::fmt::Write;
use std::path::Path as Directory;

use report::result::MountFacts;
use report::scenario::{Cache, Pattern, Stability, Work};

use super::{mount, opening};
use crate::error::Error;
use crate::fio::LOG_MS;
use crate::job::Job;

/// Bytes of a WRITE of the layout. File sizes are multiples of this value.
const LAYOUT_BLOCK: u64 = 1 << 20;
const LAYOUT_DEPTH: usize = 8;
/// fio never reaches this size and starts over, so random places do not repeat.
const ENDLESS: u64 = 1 << 60;
const PROCESSES_MAX: usize = 4096;
/// The unit of blocks that bypass the page cache.
const SECTOR: u64 = 512;
/// Bounds the rounding of a process's share of a rate.
const ROUNDED_MAX: f64 = 0.02;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Access {
    pub engine: &'static str,
    pub is_direct: bool,
}

pub(super) fn check(job: &Job, mount: &MountFacts, access: Access) -> Result<(), Error> {
    let refuse = |wrong: String| Err(Error::Plan(wrong));
    match job.work {
        Work::Transfers => {}
        Work::OpenRead => return opening::check(job),
        Work::Metadata => {
            return refuse(
                "metadata consists of single calls on names, which fio does not have; measure the server \
                itself: nfs://HOST/EXPORT"
                    .to_owned(),
            );
        }
        Work::EdaBlend => {
            return refuse(
                "eda-blend consists of single calls on a schedule, which fio does not have; measure the \
                server itself: nfs://HOST/EXPORT"
                    .to_owned(),
            );
        }
    }
    if job.block == 0 || job.file_size < job.block {
        return refuse(format!(
            "blocks of {} bytes in files of {}: at least one must fit",
            job.block, job.file_size
        ));
    }
    if access.is_direct && !job.block.is_multiple_of(SECTOR) {
        return refuse(format!(
            "blocks of {} bytes: past the page cache only multiples of {SECTOR}",
            job.block
        ));
    }
    let processes = job.clients * job.jobs;
    if processes == 0 || processes > PROCESSES_MAX || job.depth == 0 {
        return refuse(format!(
            "{} clients × {} jobs with {} in flight: 1 to {PROCESSES_MAX} jobs with at least 1 are possible",
            job.clients, job.jobs, job.depth
        ));
    }
    check_transfer(job, mount)
}

/// Refuses transfers smaller than the block: the mount decides their size.
fn check_transfer(job: &Job, facts: &MountFacts) -> Result<(), Error> {
    if job.transfer >= job.block {
        return Ok(());
    }
    for (name, is_used) in [("rsize", job.read_percent > 0), ("wsize", job.read_percent < 100)] {
        let has = mount::option(facts, name).and_then(|size| size.parse::<u64>().ok());
        if is_used && has != Some(job.transfer) {
            let has = has.map_or("it has none".to_owned(), |size| format!("it has {size}"));
            return Err(Error::Plan(format!(
                "transfers of {} bytes for blocks of {}: on a path they are the mount's {name}, and {has}; mount with \
                 {name}={}",
                job.transfer, job.block, job.transfer
            )));
        }
    }
    Ok(())
}

/// A section's name, which starts the names of its files.
pub(super) fn client(index: usize) -> String {
    format!("client{index}")
}

/// Names as fio forms them from section, job and file.
pub(super) fn files(job: &Job) -> Vec<String> {
    let of_client = |index| (0..job.jobs).map(move |number| format!("{}.{number}.0", client(index)));
    (job.first_client..job.first_client + job.clients).flat_map(of_client).collect()
}

/// `job` counts over all clients. fio never forms such a name.
pub(super) fn small_file(jobs: usize, job: usize, file: u64) -> String {
    format!("{}.{}.{}", client(job / jobs), job % jobs, file + 1)
}

pub(super) fn is_file(name: &str) -> bool {
    let mut parts = name.strip_prefix("client").unwrap_or("").split('.');
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    parts.by_ref().take(3).filter(|part| is_number(part)).count() == 3 && parts.next().is_none()
}

pub(super) fn layout(files: &[String], size: u64, seed: u64, access: Access) -> String {
    let wanted = format!("rw=write\nend_fsync=1\nrefill_buffers=1\nrandseed={}\n", (seed >> 1).max(1));
    whole_files(files, size, access, &wanted)
}

/// Reads files once, so that the server caches them.
pub(super) fn warming(files: &[String], size: u64, access: Access) -> String {
    whole_files(files, size, access, "rw=read\n")
}

fn whole_files(files: &[String], size: u64, access: Access, wanted: &str) -> String {
    let size = size.next_multiple_of(LAYOUT_BLOCK);
    let mut text = global(access) + wanted;
    let _ = write!(text, "bs={LAYOUT_BLOCK}\nsize={size}\niodepth={LAYOUT_DEPTH}\n");
    files.iter().for_each(|file| _ = write!(text, "[{file}]\nfilename={file}\n"));
    text
}

/// `window` is warm-up and length in seconds. Logs of each second go to `logs`.
pub(super) fn load(job: &Job, access: Access, window: (u64, u64), logs: &Directory) -> Result<String, Error> {
    let mut text = global(access);
    let (ramp_s, length_s) = window;
    let mut add = |option: &str, value: &dyn std::fmt::Display| _ = writeln!(text, "{option}={value}");
    add("rw", &direction(job));
    add("bs", &job.block);
    add("size", &job.file_size);
    add("numjobs", &job.jobs);
    add("iodepth", &job.depth);
    add("allow_file_create", &0);
    add("time_based", &1);
    add("runtime", &length_s);
    if ramp_s > 0 {
        add("ramp_time", &ramp_s);
    }
    match job.pattern {
        Pattern::Sequential | Pattern::Shuffled => {}
        Pattern::Random => {
            add("norandommap", &1);
            add("io_size", &ENDLESS);
        }
    }
    if is_mix(job) {
        add("rwmixread", &job.read_percent);
    }
    if job.read_percent < 100 {
        add("refill_buffers", &1);
        match job.stability {
            Stability::Unstable => add("end_fsync", &1),
            Stability::FileSync => add("sync", &"sync"),
            Stability::DataSync => add("sync", &"dsync"),
        }
    }
    // A seed replaces `randrepeat`: equal seeds give equal places, and no place repeats in a run.
    add("randseed", &seed(job));
    if let Some(rates) = rates(job)? {
        add("rate_iops", &rates);
    }
    add("lat_percentiles", &1);
    add("clat_percentiles", &0);
    add("log_avg_msec", &LOG_MS);
    add("log_unix_epoch", &1);
    for index in job.first_client..job.first_client + job.clients {
        let name = client(index);
        let log = logs.join(&name);
        let log = log.display();
        let _ = write!(text, "[{name}]\nnew_group\nwrite_iops_log={log}\nwrite_bw_log={log}\n");
    }
    Ok(text)
}

fn global(access: Access) -> String {
    let Access { engine, is_direct } = access;
    format!("[global]\nioengine={engine}\ndirect={}\nthread=1\nfallocate=none\n", u8::from(is_direct))
}

fn is_mix(job: &Job) -> bool {
    !matches!(job.read_percent, 0 | 100)
}

fn direction(job: &Job) -> &'static str {
    let is_sequential = job.pattern == Pattern::Sequential;
    match (is_sequential, job.read_percent) {
        (true, 100) => "read",
        (true, 0) => "write",
        (true, _) => "rw",
        (false, 100) => "randread",
        (false, 0) => "randwrite",
        (false, _) => "randrw",
    }
}

/// Differs for each generator, and for each repetition unless places repeat. Never 0: fio ignores that seed.
fn seed(job: &Job) -> u64 {
    let repeats = job.same_places.unwrap_or(job.cache == Cache::Warm);
    let repetition = if repeats { 0 } else { u64::from(job.repetition) };
    let first_client = u64::try_from(job.first_client).unwrap_or(0);
    // The fractions of the golden ratio and of the root of 3 keep neighbors apart.
    let mixed = job.seed
        ^ repetition.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ first_client.wrapping_mul(0xbb67_ae85_84ca_a73b);
    // fio reads a signed number.
    (mixed >> 1).max(1)
}

/// Reads and writes per second of each process: fio cannot limit their sum.
fn rates(job: &Job) -> Result<Option<String>, Error> {
    let Some(rate) = job.rate else { return Ok(None) };
    let each = rate / (job.clients_total.max(1) * job.jobs) as f64;
    let reads = each * f64::from(job.read_percent) / 100.0;
    let shares = [("reads", reads, job.read_percent > 0), ("writes", each - reads, job.read_percent < 100)];
    for (what, share, is_used) in shares {
        if is_used && (share.round() - share).abs() > ROUNDED_MAX * share {
            return Err(Error::Plan(format!(
                "{rate} operations a second are {share:.2} {what} a second for each job, and fio takes whole numbers from \
                 one on: take fewer jobs or another rate"
            )));
        }
    }
    Ok(Some(format!("{:.0},{:.0}", reads.round(), (each - reads).round())))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn job() -> Job {
        Job {
            work: Work::Transfers,
            protocol: None,
            block: 8192,
            pattern: Pattern::Random,
            read_percent: 75,
            transfer: 8192,
            attribute_cache: false,
            stability: Stability::Unstable,
            cache: Cache::Any,
            same_places: None,
            metadata: None,
            gather: None,
            clients_total: 4,
            first_client: 2,
            clients: 2,
            connections: 1,
            jobs: 3,
            depth: 16,
            file_size: 1 << 20,
            rate: None,
            job_sets: 0,
            file_scale_thousandths: 1000,
            repetition: 0,
            seed: 1,
        }
    }

    const DIRECT: Access = Access { engine: "libaio", is_direct: true };

    fn text(job: &Job) -> String {
        load(job, DIRECT, (5, 60), Directory::new("/logs")).unwrap()
    }

    #[test]
    fn load_has_a_section_for_each_client() {
        let text = text(&job());
        for line in [
            "rw=randrw",
            "rwmixread=75",
            "bs=8192",
            "size=1048576",
            "numjobs=3",
            "iodepth=16",
            "direct=1",
            "runtime=60",
            "ramp_time=5",
            "norandommap=1",
            "end_fsync=1",
            "[client2]",
            "[client3]",
            "write_bw_log=/logs/client3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        assert!(!text.contains("[client1]") && !text.contains("[client4]") && !text.contains("sync=sync"));
        assert!(files(&job()).iter().all(|file| is_file(file)));
        for other in
            ["", "client", "client0.0", "client0.0.0.0", "client.0.0", "clientx.0.0", "0.0.0", "kept"]
        {
            assert!(!is_file(other), "{other}");
        }
        assert_eq!(files(&job())[..4], ["client2.0.0", "client2.1.0", "client2.2.0", "client3.0.0"]);
    }

    #[test]
    fn pattern_mix_and_stability_choose_fio_s_words() {
        for (pattern, percent, rw) in [
            (Pattern::Sequential, 100, "rw=read\n"),
            (Pattern::Sequential, 0, "rw=write\n"),
            (Pattern::Sequential, 50, "rw=rw\nbs"),
            (Pattern::Shuffled, 100, "rw=randread\n"),
            (Pattern::Random, 0, "rw=randwrite\n"),
        ] {
            let text = text(&Job { pattern, read_percent: percent, stability: Stability::DataSync, ..job() });
            assert!(text.contains(rw), "{text}");
            assert_eq!(text.contains("norandommap"), pattern == Pattern::Random);
            assert_eq!(text.contains("sync=dsync\n"), percent < 100);
            assert_eq!(text.contains("rwmixread=50"), percent == 50);
        }
    }

    #[test]
    fn repetitions_have_places_of_their_own_unless_warm() {
        let of = |cache, repetition, first_client| seed(&Job { cache, repetition, first_client, ..job() });
        assert_ne!(of(Cache::Cold, 0, 0), of(Cache::Cold, 1, 0));
        assert_ne!(of(Cache::Cold, 0, 0), of(Cache::Cold, 0, 1));
        assert_eq!(of(Cache::Warm, 0, 0), of(Cache::Warm, 1, 0));
        let of = |same, repetition| seed(&Job { same_places: Some(same), repetition, ..job() });
        assert_eq!(of(true, 0), of(true, 1));
        assert_ne!(of(false, 0), of(false, 1));
    }

    #[test]
    fn rate_is_dealt_to_processes_and_directions() {
        let at = |rate| rates(&Job { rate: Some(rate), ..job() });
        assert_eq!(at(1200.0).unwrap().unwrap(), "75,25");
        assert_eq!(at(1184.0).unwrap().unwrap(), "74,25");
        assert!(at(24.0).unwrap_err().to_string().contains("1.50 reads"));
        assert!(at(12.0).unwrap_err().to_string().contains("0.75 reads"));
        assert_eq!(rates(&job()).unwrap(), None);
    }

    #[test]
    fn options_of_the_mount_are_refused_with_advice() {
        let mount = MountFacts { options: "rw,rsize=4096,wsize=65536".to_owned(), ..MountFacts::default() };
        let refusal = |job: Job| check(&job, &mount, DIRECT).err().map(|wrong| wrong.to_string());
        assert_eq!(refusal(job()), None);
        assert_eq!(refusal(Job { transfer: 4096, read_percent: 100, ..job() }), None);
        for (wrong, part) in [
            (Job { transfer: 4096, ..job() }, "mount with wsize=4096"),
            (Job { work: Work::OpenRead, attribute_cache: false, ..job() }, "nfs://"),
            (Job { work: Work::OpenRead, attribute_cache: true, depth: 5000, ..job() }, "1 to 1024"),
            (Job { work: Work::EdaBlend, ..job() }, "nfs://"),
            (Job { block: 1000, ..job() }, "multiples of 512"),
            (Job { block: 2 << 20, transfer: 2 << 20, ..job() }, "at least one must fit"),
            (Job { jobs: 5000, ..job() }, "1 to 4096"),
        ] {
            assert!(refusal(wrong).unwrap().contains(part), "{part}");
        }
    }
}
