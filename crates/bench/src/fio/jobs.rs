//! Reads jobs with inherited options, and writes them back as a job file.

use std::fmt::Write;

use serde::Serialize;

use super::job::Job;
use super::section::{self, GLOBAL, Given, Section};
use crate::error::Error;

/// fio's jobs, from a command line or a job file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Jobs {
    /// The jobs in their order, with inherited options.
    pub jobs: Vec<Job>,
    #[serde(skip)]
    sections: Vec<Section>,
}

impl Jobs {
    /// Reads a command line as documents print it: `fio --name=… --rw=…`, with a shell's quotes and continued lines.
    ///
    /// # Errors
    /// An option that fio refuses, or one without a single figure. The error names the option and the allowed values.
    pub fn from_command(text: &str) -> Result<Self, Error> {
        section::command_line(text).and_then(Self::of).map_err(Error::Plan)
    }

    /// # Errors
    /// See [`from_command`](Self::from_command).
    pub fn from_file(text: &str) -> Result<Self, Error> {
        section::job_file(text).and_then(Self::of).map_err(Error::Plan)
    }

    fn of(sections: Vec<Section>) -> Result<Self, String> {
        let (mut jobs, mut inherited) = (Vec::new(), Vec::<Given>::new());
        for Section { name, options } in &sections {
            if name == GLOBAL {
                inherited.extend_from_slice(options);
            } else {
                let all = [inherited.as_slice(), options].concat();
                jobs.push(Job::new(name, &all).map_err(|wrong| format!("job {name}: {wrong}"))?);
            }
        }
        if jobs.is_empty() {
            return Err(
                "there is no job: a command line needs --name=NAME, a job file a [section]".to_owned()
            );
        }
        Ok(Self { jobs, sections })
    }

    /// Formats a job file for fio's working directory: without `directory`, and with the last part of each
    /// file's name.
    pub(crate) fn in_place(&self) -> String {
        let mut text = String::new();
        for Section { name, options } in &self.sections {
            let _ = writeln!(text, "[{name}]");
            for Given { name, value } in options.iter().filter(|given| given.name != "directory") {
                let _ = match (name.as_str(), value) {
                    ("filename", Some(files)) => writeln!(text, "filename={}", last_parts(files)),
                    (_, Some(value)) => writeln!(text, "{name}={value}"),
                    (_, None) => writeln!(text, "{name}"),
                };
            }
        }
        text
    }

    /// Jobs of one set run at the same time.
    pub fn together(&self) -> impl Iterator<Item = &[Job]> {
        self.jobs.chunk_by(|_, next| !next.stonewall)
    }
}

fn last_parts(files: &str) -> String {
    let last = |file: &str| file.rsplit('/').next().unwrap_or(file).to_owned();
    files.split(':').map(last).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::super::job::{Sync, Transfer};
    use super::*;

    #[test]
    fn options_are_inherited_and_the_last_one_counts() {
        let text = "[global]\nbs=8k\ndirect=1\nioengine=libaio\niodepth=4\n[a]\nrw=randrw\nrwmixwrite=30\nsize=1g\n\
            iodepth=32\nnumjobs=4\n[b]\nstonewall\nrw=write\nbs=4k,64k\nsync=dsync\nodd=1\n";
        let jobs = Jobs::from_file(text).unwrap();
        let [a, b] = jobs.jobs.as_slice() else { panic!("{jobs:?}") };
        assert_eq!((a.transfers, a.is_random, a.read_percent), (Transfer::Both, true, 70));
        assert_eq!((a.depth(), a.working_set(), a.read_block), (Some(32), Some(4 << 30), 8192));
        assert_eq!((b.sync, b.write_block, b.block(), b.depth()), (Sync::Dsync, 65_536, 65_536, Some(4)));
        assert_eq!((b.unknown.as_slice(), a.unknown.len()), (["odd=1".to_owned()].as_slice(), 0));
        assert_eq!(jobs.together().map(<[Job]>::len).collect::<Vec<_>>(), [1, 1]);
    }

    #[test]
    fn kilobytes_may_be_decimal() {
        let jobs = Jobs::from_command("fio --name=a --kb_base=1000 --bs=4k --size=1m").unwrap();
        assert_eq!((jobs.jobs[0].read_block, jobs.jobs[0].size), (4000, Some(1_000_000)));
        let jobs = Jobs::from_file("[global]\nbs=4k\n[a]\nsize=1m\nkb_base=1000\n").unwrap();
        assert_eq!((jobs.jobs[0].read_block, jobs.jobs[0].size), (4096, Some(1_000_000)));
    }

    #[test]
    fn numbers_are_taken_as_fio_takes_them() {
        let options = "--rw=randrw --bs=,8k --size=0x100000 --io_size=50% --numjobs=1k --runtime=5min --thinktime=0ms \
            --rwmixwrite=0x1e --iodepth=4,8";
        let jobs = Jobs::from_command(&format!("fio --name=a {options}")).unwrap();
        let job = &jobs.jobs[0];
        assert_eq!((job.read_block, job.write_block, job.size), (4096, 8192, Some(1 << 20)));
        assert_eq!((job.io_size, job.numjobs, job.iodepth), (Some(1 << 19), 1024, 4));
        assert_eq!((job.runtime_s, job.thinktime.as_deref(), job.read_percent), (Some(5e-6), None, 70));
        assert!(job.surprises[0].starts_with("runtime=5min is 5 µs to fio"), "{:?}", job.surprises);
        assert_eq!(job.surprises.len(), 1);
    }

    #[test]
    fn job_without_single_figure_is_refused_by_name() {
        for (options, part) in [
            ("--bssplit=4k/50:8k/50", "each size with its own bs="),
            ("--size=50%", "share"),
            ("--rw=trim", "for devices"),
            ("--rw=randread:8", "without the colon"),
            ("--numjobs=0", "at least 1"),
            ("--directory=${HOME}", "write the value"),
            ("--rwmixread=101", "0 to 100"),
            ("--direct=true", "\"true\" is not 0 or 1"),
            ("--time_based=yes", "\"yes\" is not 0 or 1"),
            ("--rwmixcycle=1", "given this option up"),
            ("--sync=often", "not one of none, 0, sync"),
            ("--size=4z", "zones"),
            ("--bs=(4*2)k", "to be calculated"),
            ("--iodepth=0", "at least 1"),
            ("--size=$mb_memory", "write the value"),
        ] {
            let wrong = Jobs::from_command(&format!("fio --name=x {options}")).unwrap_err().to_string();
            assert!(wrong.starts_with("job x: ") && wrong.contains(part), "{wrong}");
        }
        let wrong = Jobs::from_file("[x]\ndirect\n").unwrap_err().to_string();
        assert!(wrong.contains("direct: needs 0 or 1"), "{wrong}");
        assert!(Jobs::from_command("fio --rw=read").unwrap_err().to_string().contains("--name"));
        assert!(Jobs::from_file("[global]\nrw=read").unwrap_err().to_string().contains("[section]"));
    }

    #[test]
    fn only_places_are_replaced() {
        let jobs = Jobs::from_command(
            "fio --direct=1 --name=a --directory=/mnt/x --filename=/mnt/x/f:g --time_based",
        )
        .unwrap();
        assert_eq!(jobs.in_place(), "[global]\ndirect=1\n[a]\nfilename=f:g\ntime_based\n");
    }
}
