//! fio's jobs as types, with fio's defaults.

use serde::Serialize;

use super::number::{bytes, count, seconds, switch};
use super::section::Given;

/// fio's own block.
const BLOCK: u64 = 4096;
/// What `k` is a power of, unless `kb_base` says otherwise.
const KB_BASE: u64 = 1024;
/// Engines with many operations in flight.
const ASYNCHRONOUS: [&str; 5] = ["libaio", "io_uring", "io_uring_cmd", "posixaio", "windowsaio"];
/// Engines that do one operation after the other.
const SYNCHRONOUS: [&str; 7] = ["sync", "psync", "vsync", "pvsync", "pvsync2", "mmap", "splice"];
/// Options that change nothing of what is said here about a job.
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

/// A job as fio would run it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// What it does.
    pub transfers: Transfer,
    /// Whether its places are random.
    pub is_random: bool,
    /// Share of reads in percent.
    pub read_percent: u8,
    /// Bytes of a read.
    pub read_block: u64,
    /// Bytes of a write.
    pub write_block: u64,
    /// Bytes of each process's file, or files together.
    pub size: Option<u64>,
    /// Bytes after which a process ends or begins anew, if not `size`.
    pub io_size: Option<u64>,
    /// Processes.
    pub numjobs: u64,
    /// Operations in flight of each process, if the engine can.
    pub iodepth: u64,
    /// How operations are made.
    pub ioengine: String,
    /// Past the client's page cache (`O_DIRECT`).
    pub direct: bool,
    /// Whether each write is stable when it returns.
    pub sync: Sync,
    /// Writes after each of which an fsync is done; 0 is never.
    pub fsync: u64,
    /// The same with fdatasync.
    pub fdatasync: u64,
    /// fsync at the end of each pass.
    pub end_fsync: bool,
    /// fsync when a file is closed.
    pub fsync_on_close: bool,
    /// Ends by time alone.
    pub time_based: bool,
    /// Most seconds.
    pub runtime_s: Option<f64>,
    /// Seconds before measuring.
    pub ramp_time_s: f64,
    /// Passes through the files.
    pub loops: u64,
    /// The same places in each pass and each run; absent where it is not written, which means yes.
    pub randrepeat: Option<bool>,
    /// Where random places begin.
    pub randseed: Option<u64>,
    /// Places are drawn without remembering which were used.
    pub norandommap: bool,
    /// One line for all processes.
    pub group_reporting: bool,
    /// Begins when the jobs before it have ended.
    pub stonewall: bool,
    /// Where its files are.
    pub directory: Option<String>,
    /// Its file, which all processes share.
    pub filename: Option<String>,
    /// Files of each process.
    pub nrfiles: u64,
    /// Operations a second, as written.
    pub rate_iops: Option<String>,
    /// Bytes a second, as written.
    pub rate: Option<String>,
    /// Waits between operations, as written.
    pub thinktime: Option<String>,
    /// Writes zeros.
    pub zero_buffers: bool,
    /// Makes new data for each write.
    pub refill_buffers: bool,
    /// Data shrink by this share.
    pub compress_percent: u64,
    /// Writes into files that are there in full.
    pub overwrite: bool,
    /// How space is taken before writing.
    pub fallocate: Option<String>,
    /// Forgets the client's cached pages at the start.
    pub invalidate: bool,
    /// Options that are not known here, as written.
    pub unknown: Vec<String>,
}

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Transfer {
    /// Reads only.
    Reads,
    /// Writes only.
    Writes,
    /// Both.
    Both,
}

/// Whether each write is stable when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sync {
    /// No.
    None,
    /// Data and attributes (`O_SYNC`).
    Sync,
    /// Data (`O_DSYNC`).
    Dsync,
}

impl Job {
    /// A job of these options, in their order; the last one of a name counts.
    pub(super) fn new(name: &str, options: &[Given]) -> Result<Self, String> {
        let mut job = Self::unset(name);
        let base =
            options.iter().rfind(|given| given.name == "kb_base").and_then(|given| given.value.as_deref());
        let base = base.map(count).transpose()?.unwrap_or(KB_BASE);
        let mut percent = 50;
        for Given { name, value } in options {
            let value = value.as_deref();
            if value.is_some_and(|value| value.contains("${")) {
                return Err(format!("{name}: variables are replaced only when fio runs; write the value"));
            }
            match name.as_str() {
                "rwmixread" => percent = percentage(needed(name, value)?)?,
                "rwmixwrite" => percent = 100 - percentage(needed(name, value)?)?,
                _ => {
                    let set = job.set(name, value, base).map_err(|wrong| format!("{name}: {wrong}"))?;
                    if !set && !WITHOUT_CONSEQUENCE.contains(&name.as_str()) {
                        job.unknown.push(value.map_or(name.clone(), |value| format!("{name}={value}")));
                    }
                }
            }
        }
        job.read_percent = match job.transfers {
            Transfer::Reads => 100,
            Transfer::Writes => 0,
            Transfer::Both => percent,
        };
        Ok(job)
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
        }
    }

    /// Sets an option; false if it is not known.
    fn set(&mut self, name: &str, value: Option<&str>, base: u64) -> Result<bool, String> {
        Ok(self.set_work(name, value, base)?
            || self.set_course(name, value)?
            || self.set_data(name, value)?)
    }

    /// What is done, and where.
    fn set_work(&mut self, name: &str, value: Option<&str>, base: u64) -> Result<bool, String> {
        let text = || needed(name, value);
        match name {
            "rw" | "readwrite" => (self.transfers, self.is_random) = direction(text()?)?,
            "bs" | "blocksize" => (self.read_block, self.write_block) = blocks(text()?, base)?,
            "bssplit" | "bsrange" | "blocksize_range" => {
                return Err("a mixture of block sizes has no equivalent here, and no figure of its own; measure each \
                    size with its own bs="
                    .to_owned());
            }
            "size" => self.size = Some(bytes(text()?, base)?),
            "io_size" | "io_limit" => self.io_size = Some(bytes(text()?, base)?),
            "filesize" => self.size = self.size.or(Some(bytes(text()?, base)?)),
            "numjobs" => self.numjobs = at_least_one(text()?)?,
            "iodepth" => self.iodepth = at_least_one(text()?)?,
            "ioengine" => text()?.clone_into(&mut self.ioengine),
            "direct" => self.direct = switch(value)?,
            "buffered" => self.direct = !switch(value)?,
            "directory" => self.directory = Some(text()?.to_owned()),
            "filename" => self.filename = Some(text()?.to_owned()),
            "nrfiles" | "nr_files" => self.nrfiles = at_least_one(text()?)?,
            "norandommap" => self.norandommap = switch(value)?,
            "randrepeat" => self.randrepeat = Some(switch(value)?),
            "randseed" => self.randseed = Some(count(text()?)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// How long, how fast, and what is told.
    fn set_course(&mut self, name: &str, value: Option<&str>) -> Result<bool, String> {
        let text = || needed(name, value);
        match name {
            "time_based" => self.time_based = switch(value)?,
            "runtime" | "timeout" => self.runtime_s = Some(seconds(text()?)?).filter(|time| *time > 0.0),
            "ramp_time" => self.ramp_time_s = seconds(text()?)?,
            "loops" => self.loops = count(text()?)?.max(1),
            "stonewall" | "wait_for_previous" => self.stonewall = switch(value)?,
            "group_reporting" => self.group_reporting = switch(value)?,
            "rate_iops" => self.rate_iops = Some(text()?.to_owned()),
            "rate" => self.rate = Some(text()?.to_owned()),
            "thinktime" => self.thinktime = Some(text()?.to_owned()).filter(|time| time != "0"),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What is written, and how safely.
    fn set_data(&mut self, name: &str, value: Option<&str>) -> Result<bool, String> {
        let text = || needed(name, value);
        match name {
            "sync" => self.sync = stability(text()?)?,
            "fsync" => self.fsync = count(text()?)?,
            "fdatasync" => self.fdatasync = count(text()?)?,
            "end_fsync" => self.end_fsync = switch(value)?,
            "fsync_on_close" => self.fsync_on_close = switch(value)?,
            "zero_buffers" => self.zero_buffers = switch(value)?,
            "refill_buffers" => self.refill_buffers = switch(value)?,
            "buffer_compress_percentage" => self.compress_percent = count(text()?)?,
            "overwrite" => self.overwrite = switch(value)?,
            "fallocate" => self.fallocate = Some(text()?.to_owned()),
            "invalidate" => self.invalidate = switch(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Whether it reads.
    pub fn reads(&self) -> bool {
        self.read_percent > 0
    }

    /// Whether it writes.
    pub fn writes(&self) -> bool {
        self.read_percent < 100
    }

    /// Operations that each process really has in flight: one with engines that wait, and with libaio through
    /// the page cache, where submitting waits; absent for engines that are not known.
    pub fn depth(&self) -> Option<u64> {
        let engine = self.ioengine.as_str();
        if SYNCHRONOUS.contains(&engine) || (engine == "libaio" && !self.direct) {
            return Some(1);
        }
        ASYNCHRONOUS.contains(&engine).then_some(self.iodepth)
    }

    /// Bytes of all files together.
    pub fn working_set(&self) -> Option<u64> {
        let files = if self.filename.is_some() { 1 } else { self.numjobs };
        self.size.and_then(|size| size.checked_mul(files))
    }

    /// Bytes that all processes move before they end, if time does not end them.
    pub fn moved(&self) -> Option<u64> {
        let each = self.io_size.or(self.size)?;
        each.checked_mul(self.numjobs)?.checked_mul(self.loops)
    }

    /// Bytes of an operation; of a read, if it reads at all.
    pub fn block(&self) -> u64 {
        if self.reads() { self.read_block } else { self.write_block }
    }
}

fn needed<'v>(name: &str, value: Option<&'v str>) -> Result<&'v str, String> {
    value.filter(|value| !value.is_empty()).ok_or_else(|| format!("{name} needs a value"))
}

fn at_least_one(text: &str) -> Result<u64, String> {
    count(text).and_then(|number| if number > 0 { Ok(number) } else { Err("at least 1".to_owned()) })
}

fn percentage(text: &str) -> Result<u8, String> {
    let number = text.parse().ok().filter(|number| *number <= 100);
    number.ok_or_else(|| format!("\"{text}\" is not a share; fio reads 0 to 100"))
}

fn direction(text: &str) -> Result<(Transfer, bool), String> {
    Ok(match text {
        "read" => (Transfer::Reads, false),
        "write" => (Transfer::Writes, false),
        "rw" | "readwrite" => (Transfer::Both, false),
        "randread" => (Transfer::Reads, true),
        "randwrite" => (Transfer::Writes, true),
        "randrw" => (Transfer::Both, true),
        _ if text.contains("trim") => {
            return Err(format!("\"{text}\" trims, which is for devices, not for files"));
        }
        _ if text.contains(':') => {
            return Err(format!("\"{text}\" is neither sequential nor random; write it without the colon"));
        }
        _ => return Err(format!("\"{text}\" is not one of read, write, rw, randread, randwrite, randrw")),
    })
}

/// `4k`, or `4k,64k` for reads and writes.
fn blocks(text: &str, base: u64) -> Result<(u64, u64), String> {
    let mut sizes = text.split(',').map(|size| bytes(size, base));
    let read = sizes.next().unwrap_or_else(|| bytes(text, base))?;
    let write = sizes.next().transpose()?.unwrap_or(read);
    if read == 0 || write == 0 { Err("at least 1".to_owned()) } else { Ok((read, write)) }
}

fn stability(text: &str) -> Result<Sync, String> {
    match text {
        "0" | "none" => Ok(Sync::None),
        "1" | "sync" => Ok(Sync::Sync),
        "dsync" => Ok(Sync::Dsync),
        _ => Err(format!("\"{text}\" is not one of none, sync, dsync")),
    }
}
