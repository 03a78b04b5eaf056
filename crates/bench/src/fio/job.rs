//! fio's jobs as types, with fio's defaults.

use serde::Serialize;

use super::number::word;
use super::options;
use super::section::Given;
use super::setting::Setting;

const BLOCK: u64 = 4096;
/// The base of `k`, unless `kb_base` is set.
const KB_BASE: u64 = 1024;
const ASYNCHRONOUS: [&str; 5] = ["libaio", "io_uring", "io_uring_cmd", "posixaio", "windowsaio"];
const SYNCHRONOUS: [&str; 7] = ["sync", "psync", "vsync", "pvsync", "pvsync2", "mmap", "splice"];
/// fio replaces these variables in a job file when it runs.
const VARIABLES: [&str; 4] = ["${", "$pagesize", "$mb_memory", "$ncpus"];
/// Options without an effect on the findings about a job.
const WITHOUT_CONSEQUENCE: [&str; 34] = [
    "allow_file_create",
    "bwavgtime",
    "clat_percentiles",
    "cpus_allowed",
    "cpus_allowed_policy",
    "create_fsync",
    "create_serialize",
    "description",
    "disk_util",
    "exitall",
    "exitall_on_error",
    "file_service_type",
    "filename_format",
    "iopsavgtime",
    "kb_base",
    "lat_percentiles",
    "log_avg_msec",
    "log_hist_msec",
    "log_max_value",
    "log_unix_epoch",
    "new_group",
    "nice",
    "numa_cpu_nodes",
    "numa_mem_policy",
    "per_job_logs",
    "percentile_list",
    "significant_figures",
    "slat_percentiles",
    "thread",
    "unit_base",
    "unlink",
    "write_bw_log",
    "write_iops_log",
    "write_lat_log",
];

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Job {
    pub name: String,
    pub transfers: Transfer,
    /// Whether offsets are random.
    pub is_random: bool,
    pub read_percent: u8,
    pub read_block: u64,
    pub write_block: u64,
    /// Bytes of each process's file or files.
    pub size: Option<u64>,
    /// Bytes after which a process ends or starts over, if not `size`.
    pub io_size: Option<u64>,
    pub numjobs: u64,
    /// Operations in flight of each process, if the engine supports several.
    pub iodepth: u64,
    pub ioengine: String,
    /// Whether I/O bypasses the client's page cache (`O_DIRECT`).
    pub direct: bool,
    /// The stability of each write on return.
    pub sync: Sync,
    /// Writes between two calls of fsync; 0 is none.
    pub fsync: u64,
    /// Writes between two calls of fdatasync; 0 is none.
    pub fdatasync: u64,
    /// Whether each pass ends with fsync.
    pub end_fsync: bool,
    /// Whether closing a file calls fsync.
    pub fsync_on_close: bool,
    /// Whether the job ends by time alone.
    pub time_based: bool,
    /// The longest time in seconds.
    pub runtime_s: Option<f64>,
    /// Seconds of the warm-up.
    pub ramp_time_s: f64,
    pub loops: u64,
    /// Whether each pass and each run uses the same offsets; absent means yes.
    pub randrepeat: Option<bool>,
    /// The seed of random offsets.
    pub randseed: Option<u64>,
    /// Whether random offsets ignore earlier ones.
    pub norandommap: bool,
    /// Whether all processes have one report.
    pub group_reporting: bool,
    /// Whether the job starts after the jobs before it have ended.
    pub stonewall: bool,
    /// The directory of its files.
    pub directory: Option<String>,
    /// The file that all processes share.
    pub filename: Option<String>,
    pub nrfiles: u64,
    /// Operations a second, as written.
    pub rate_iops: Option<String>,
    /// Bytes a second, as written.
    pub rate: Option<String>,
    /// Pauses between operations, as written.
    pub thinktime: Option<String>,
    /// Whether data is zeros.
    pub zero_buffers: bool,
    /// Whether each write has new data.
    pub refill_buffers: bool,
    /// Percentage by which data compresses.
    pub compress_percent: u64,
    /// Whether files are laid out in full before writes.
    pub overwrite: bool,
    /// The way in which space is allocated before writes.
    pub fallocate: Option<String>,
    /// Whether the client's cached pages are dropped at the start.
    pub invalidate: bool,
    /// Unknown options, as written.
    pub unknown: Vec<String>,
    /// Options that fio reads differently from their text, with the reason.
    pub surprises: Vec<String>,
    /// Options of engines other than the job's, as written.
    pub of_other_engines: Vec<String>,
}

/// The directions of a job's transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Transfer {
    Reads,
    Writes,
    Both,
}

/// The stability of a write on return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sync {
    None,
    /// Data and attributes (`O_SYNC`).
    Sync,
    /// Data (`O_DSYNC`).
    Dsync,
}

impl Job {
    /// A later option overrides an earlier one.
    pub(super) fn new(name: &str, options: &[Given]) -> Result<Self, String> {
        let mut job = Self::unset(name);
        let mut base = KB_BASE;
        let mut course = Course { percent: 50, io_percent: None };
        for Given { name, value } in options {
            let value = value.as_deref();
            let in_job = |wrong: String| format!("{name}: {wrong}");
            if value.is_some_and(|value| VARIABLES.iter().any(|variable| value.contains(variable))) {
                return Err(in_job("variables are replaced only when fio runs; write the value".to_owned()));
            }
            let Some(known) = options::find(name) else {
                job.unknown.push(format_option(name, value));
                continue;
            };
            known.check(value, base).map_err(in_job)?;
            job.surprises.extend(value.and_then(|value| known.surprise(value, base)));
            let setting = Setting { spec: known, value, base };
            let is_set = job.set(&setting, &mut course).map_err(in_job)?;
            match known.name {
                "kb_base" => base = if value.map(word) == Some("1000") { 1000 } else { KB_BASE },
                _ if !is_set && !WITHOUT_CONSEQUENCE.contains(&known.name) => {
                    job.unknown.push(format_option(name, value));
                }
                _ => {}
            }
        }
        job.finish(&course, options)?;
        Ok(job)
    }

    fn finish(&mut self, course: &Course, options: &[Given]) -> Result<(), String> {
        self.read_percent = match self.transfers {
            Transfer::Reads => 100,
            Transfer::Writes => 0,
            Transfer::Both => course.percent,
        };
        if let Some(percent) = course.io_percent {
            let size = self.size.ok_or("io_size: a share of the size, which is not written; write bytes")?;
            self.io_size = u64::try_from(u128::from(size) * u128::from(percent) / 100).ok();
        }
        let engine = self.ioengine.as_str();
        let is_known = [ASYNCHRONOUS.as_slice(), &SYNCHRONOUS].concat().contains(&engine);
        let is_foreign = |given: &&Given| {
            let engines = options::find(&given.name).map_or(&[] as &[_], |known| &known.engines);
            is_known && !engines.is_empty() && !engines.contains(&engine)
        };
        let foreign = options.iter().filter(is_foreign);
        self.of_other_engines =
            foreign.map(|given| format_option(&given.name, given.value.as_deref())).collect();
        Ok(())
    }

    fn unset(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            transfers: Transfer::Reads,
            is_random: false,
            read_percent: 100,
            read_block: BLOCK,
            write_block: BLOCK,
            size: None,
            io_size: None,
            numjobs: 1,
            iodepth: 1,
            ioengine: "psync".to_owned(),
            direct: false,
            sync: Sync::None,
            fsync: 0,
            fdatasync: 0,
            end_fsync: false,
            fsync_on_close: false,
            time_based: false,
            runtime_s: None,
            ramp_time_s: 0.0,
            loops: 1,
            randrepeat: None,
            randseed: None,
            norandommap: false,
            group_reporting: false,
            stonewall: false,
            directory: None,
            filename: None,
            nrfiles: 1,
            rate_iops: None,
            rate: None,
            thinktime: None,
            zero_buffers: false,
            refill_buffers: false,
            compress_percent: 0,
            overwrite: false,
            fallocate: None,
            invalidate: true,
            unknown: Vec::new(),
            surprises: Vec::new(),
            of_other_engines: Vec::new(),
        }
    }

    fn set(&mut self, setting: &Setting<'_>, course: &mut Course) -> Result<bool, String> {
        Ok(self.set_work(setting, course)? || self.set_course(setting, course)? || self.set_data(setting)?)
    }

    fn set_work(&mut self, setting: &Setting<'_>, course: &mut Course) -> Result<bool, String> {
        match setting.spec.name {
            "rw" => (self.transfers, self.is_random) = direction(setting.text()?)?,
            "bs" => self.set_blocks(&setting.numbers()?),
            "bssplit" | "bsrange" => {
                return Err("a mixture of block sizes has no equivalent here, and no figure of its own; measure each \
                    size with its own bs="
                    .to_owned());
            }
            "size" => self.size = setting.last()?.or(self.size),
            "io_size" => match setting.share()? {
                Some(percent) => (self.io_size, course.io_percent) = (None, Some(percent)),
                None => (self.io_size, course.io_percent) = (setting.last()?, None),
            },
            "filesize" => match setting.numbers()?.as_slice() {
                [size] => self.size = self.size.or(*size),
                _ => {
                    return Err(
                        "files of several sizes have no figure of their own; write one size".to_owned()
                    );
                }
            },
            "numjobs" => set(&mut self.numjobs, setting.at_least_one()?),
            "iodepth" => set(&mut self.iodepth, setting.at_least_one()?),
            "ioengine" => setting.text()?.clone_into(&mut self.ioengine),
            "direct" => self.direct = setting.switch(),
            "buffered" => self.direct = !setting.switch(),
            "directory" => self.directory = Some(setting.text()?.to_owned()),
            "filename" => self.filename = Some(setting.text()?.to_owned()),
            "nrfiles" => set(&mut self.nrfiles, setting.at_least_one()?),
            "norandommap" => self.norandommap = setting.switch(),
            "randrepeat" => self.randrepeat = Some(setting.switch()),
            "randseed" => self.randseed = setting.first()?.or(self.randseed),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// A missing part keeps its value. A single part applies to both directions.
    fn set_blocks(&mut self, sizes: &[Option<u64>]) {
        let reads = sizes.first().copied().flatten();
        let writes = if sizes.len() == 1 { reads } else { sizes[1] };
        set(&mut self.read_block, reads);
        set(&mut self.write_block, writes);
    }

    fn set_course(&mut self, setting: &Setting<'_>, course: &mut Course) -> Result<bool, String> {
        match setting.spec.name {
            "rwmixread" => set(&mut course.percent, setting.percent()?),
            "rwmixwrite" => set(&mut course.percent, setting.percent()?.map(|percent| 100 - percent)),
            "time_based" => self.time_based = setting.switch(),
            "runtime" => self.runtime_s = setting.seconds()?.or(self.runtime_s).filter(|time| *time > 0.0),
            "ramp_time" => self.ramp_time_s = setting.seconds()?.unwrap_or(self.ramp_time_s),
            "loops" => set(&mut self.loops, setting.first()?.map(|loops| loops.max(1))),
            "stonewall" => self.stonewall = setting.switch(),
            "group_reporting" => self.group_reporting = setting.switch(),
            "rate_iops" => self.rate_iops = Some(setting.text()?.to_owned()),
            "rate" => self.rate = Some(setting.text()?.to_owned()),
            "thinktime" => {
                let waits = setting.first()?.is_some_and(|us| us > 0);
                self.thinktime = setting.value.filter(|_| waits).map(str::to_owned);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_data(&mut self, setting: &Setting<'_>) -> Result<bool, String> {
        match setting.spec.name {
            "sync" => self.sync = stability(setting.text()?),
            "fsync" => set(&mut self.fsync, setting.first()?),
            "fdatasync" => set(&mut self.fdatasync, setting.first()?),
            "end_fsync" => self.end_fsync = setting.switch(),
            "fsync_on_close" => self.fsync_on_close = setting.switch(),
            "zero_buffers" => self.zero_buffers = setting.switch(),
            "refill_buffers" => self.refill_buffers = setting.switch(),
            "buffer_compress_percentage" => set(&mut self.compress_percent, setting.last()?),
            "overwrite" => self.overwrite = setting.switch(),
            "fallocate" => self.fallocate = Some(setting.text()?.to_owned()),
            "invalidate" => self.invalidate = setting.switch(),
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub fn reads(&self) -> bool {
        self.read_percent > 0
    }

    pub fn writes(&self) -> bool {
        self.read_percent < 100
    }

    /// The actual operations in flight of each process. One with synchronous engines, and with libaio through
    /// the page cache, where submission blocks. `None` for unknown engines.
    pub fn depth(&self) -> Option<u64> {
        let engine = self.ioengine.as_str();
        if SYNCHRONOUS.contains(&engine) || (engine == "libaio" && !self.direct) {
            return Some(1);
        }
        ASYNCHRONOUS.contains(&engine).then_some(self.iodepth)
    }

    pub fn working_set(&self) -> Option<u64> {
        let files = if self.filename.is_some() { 1 } else { self.numjobs };
        self.size.and_then(|size| size.checked_mul(files))
    }

    /// Bytes that all processes move before they end, unless time ends them.
    pub fn moved(&self) -> Option<u64> {
        let each = self.io_size.or(self.size)?;
        each.checked_mul(self.numjobs)?.checked_mul(self.loops)
    }

    pub fn block(&self) -> u64 {
        if self.reads() { self.read_block } else { self.write_block }
    }
}

/// Options that are resolved at the end.
struct Course {
    percent: u8,
    /// In percent of `size`.
    io_percent: Option<u64>,
}

fn format_option(name: &str, value: Option<&str>) -> String {
    value.map_or(name.to_owned(), |value| format!("{name}={value}"))
}

/// `None` keeps the old value.
fn set<T>(place: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *place = given;
    }
}

fn direction(text: &str) -> Result<(Transfer, bool), String> {
    let word = word(text);
    if word.len() < text.len() && text[word.len()..].starts_with(':') {
        return Err(format!("\"{text}\" is neither sequential nor random; write it without the colon"));
    }
    Ok(match word {
        "read" => (Transfer::Reads, false),
        "write" => (Transfer::Writes, false),
        "rw" | "readwrite" => (Transfer::Both, false),
        "randread" => (Transfer::Reads, true),
        "randwrite" => (Transfer::Writes, true),
        "randrw" => (Transfer::Both, true),
        _ => return Err(format!("\"{word}\" trims, which is for devices, not for files")),
    })
}

fn stability(text: &str) -> Sync {
    match word(text) {
        "1" | "sync" => Sync::Sync,
        "dsync" => Sync::Dsync,
        _ => Sync::None,
    }
}
