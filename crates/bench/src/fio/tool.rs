//! The installed fio: version, start, end, and results.

use std::fs;
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::{env, thread};

use rustix::process::{Pid, Signal, kill_process};
use stable::files;
use tempfile::TempDir;

use super::output::{self, Output};
use crate::error::Error;
use crate::private_dir::PrivateDir;

const PROGRAM: &str = "fio";
/// The oldest version whose JSON and logs have the expected form.
const OLDEST: (u32, u32) = (3, 1);
const JOBS: &str = "jobs.fio";
const OUTPUT: &str = "output.json";
const ERRORS: &str = "errors.txt";

#[derive(Clone, Debug)]
pub(crate) struct Tool {
    /// fio's text: `fio-3.33`.
    pub version: String,
    engines: Vec<String>,
}

/// Ends fio on drop.
#[derive(Debug)]
pub(crate) struct Running {
    process: Process,
    scratch: TempDir,
    live_rates: Receiver<LiveRates>,
}

#[derive(Debug)]
struct Process(Child);

/// The rates that fio prints while it runs, twice per second, to four digits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LiveRates {
    pub ops_per_s: f64,
    pub bytes_per_s: f64,
}

#[derive(Debug)]
pub(crate) struct Finished {
    pub output: Output,
    pub complaints: Vec<String>,
    /// Contains the logs. Removed on drop.
    pub scratch: TempDir,
    is_success: bool,
}

impl Tool {
    /// Searches the path.
    ///
    /// # Errors
    /// fio is missing, or older than 3.1.
    pub(crate) fn find() -> Result<Self, Error> {
        Self::named(PROGRAM)
    }

    fn named(program: &str) -> Result<Self, Error> {
        let version = ask(program, "--version")?.trim().to_owned();
        check_age(&version)?;
        // A heading, then an engine a line.
        let engines = ask(program, "--enghelp")?.lines().skip(1).map(|line| line.trim().to_owned()).collect();
        Ok(Self { version, engines })
    }

    pub(crate) fn has_engine(&self, name: &str) -> bool {
        self.engines.iter().any(|engine| engine == name)
    }

    /// For the output of a run.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub(crate) fn scratch(&self) -> Result<TempDir, Error> {
        let made = tempfile::Builder::new().prefix("plimsoll-fio-").tempdir();
        made.map_err(Error::io(format!("make a directory in {}", env::temp_dir().display())))
    }

    /// Starts a job file in a directory. Relative names refer to the open directory, whatever its path leads
    /// to by now.
    ///
    /// # Errors
    /// The operating system refuses. fio reports errors in the jobs at its end.
    pub(crate) fn start(
        &self,
        jobs: &str,
        directory: &PrivateDir,
        scratch: TempDir,
    ) -> Result<Running, Error> {
        let jobs_path = scratch.path().join(JOBS);
        let written = files::create_new(&jobs_path, files::PRIVATE)
            .and_then(|mut file| file.write_all(jobs.as_bytes()));
        written.map_err(Error::io("write fio's job file"))?;
        let errors = files::create_new(&scratch.path().join(ERRORS), files::PRIVATE)
            .map_err(Error::io("make a file for fio's errors"))?;
        let mut child = Command::new(PROGRAM)
            // Full distributions, at the end only: --status-interval delays the jobs, and hangs in many versions.
            .args(["--output-format=json+", "--eta=always"])
            .arg(format!("--output={}", scratch.path().join(OUTPUT).display()))
            .arg(&jobs_path)
            .current_dir(directory.by_descriptor())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .map_err(Error::io("start fio"))?;
        let (sender, live_rates) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || listen(stdout, &sender));
        }
        Ok(Running { process: Process(child), scratch, live_rates })
    }
}

impl Running {
    pub(crate) fn live_rates(&self) -> impl Iterator<Item = LiveRates> {
        self.live_rates.try_iter()
    }

    /// # Errors
    /// The operating system refuses.
    pub(crate) fn is_over(&mut self) -> Result<bool, Error> {
        self.process.0.try_wait().map(|status| status.is_some()).map_err(Error::io("look after fio"))
    }

    /// Asks fio to end its jobs. fio still writes its results.
    pub(crate) fn interrupt(&self) {
        // Safe against reuse of the process id: a child keeps it until `is_over` has reaped it.
        let _ = kill_process(Pid::from_child(&self.process.0), Signal::INT);
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// fio rejected its jobs, or its output has an unknown form.
    pub(crate) fn finish(mut self) -> Result<Finished, Error> {
        let status = self.process.0.wait().map_err(Error::io("wait for fio"))?;
        let read = |name: &str| fs::read_to_string(self.scratch.path().join(name)).unwrap_or_default();
        let (output, errors) = (read(OUTPUT), read(ERRORS));
        let (notes, figures) = output::split(&output);
        let lines = errors.lines().chain(notes.lines()).map(str::trim).filter(|line| !line.is_empty());
        let complaints: Vec<String> = lines.map(str::to_owned).collect();
        let output: Option<Output> = (!figures.is_empty()).then(|| figures.parse()).transpose()?;
        match output {
            Some(output) if !output.jobs.is_empty() => {
                Ok(Finished { output, complaints, scratch: self.scratch, is_success: status.success() })
            }
            _ => Err(Error::Plan(format!("fio ended ({status}) without figures: {}", complaints.join("; ")))),
        }
    }
}

impl Finished {
    /// The reason of a failure, in fio's words. The figures may not show it: a job that could not start has
    /// no error there.
    pub(crate) fn failure(&self) -> Option<String> {
        let errors = self.output.jobs.iter().map(|job| job.error).filter(|error| *error != 0);
        let mut said: Vec<String> =
            errors.map(|error| io::Error::from_raw_os_error(error).to_string()).collect();
        said.dedup();
        said.extend_from_slice(&self.complaints);
        if said.is_empty() {
            said.push("fio does not say why".to_owned());
        }
        (!self.is_success).then(|| said.join("; "))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // `Child` ignores a kill after the process has been reaped.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ask(program: &str, option: &str) -> Result<String, Error> {
    let answer = Command::new(program).arg(option).stdin(Stdio::null()).output();
    let answer = answer.map_err(|wrong| match wrong.kind() {
        ErrorKind::NotFound => Error::Plan(format!(
            "{program} is not installed, and a mounted path is measured with it; on Debian: apt-get install fio"
        )),
        _ => Error::io(format!("run {program} {option}"))(wrong),
    })?;
    Ok(String::from_utf8_lossy(&answer.stdout).into_owned())
}

fn check_age(version: &str) -> Result<(), Error> {
    let numbers = version.strip_prefix("fio-").unwrap_or(version);
    let mut numbers = numbers.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse().ok());
    let found: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if found < OLDEST {
        let (major, minor) = OLDEST;
        return Err(Error::Plan(format!("{version} is too old; at least fio-{major}.{minor} is needed")));
    }
    Ok(())
}

/// Reads lines, which may overwrite each other as on a terminal. Sends those with rates.
fn listen(stdout: impl Read, sender: &Sender<LiveRates>) {
    let mut line = Vec::new();
    for byte in BufReader::new(stdout).bytes().map_while(Result::ok) {
        if byte != b'\r' && byte != b'\n' {
            line.push(byte);
            continue;
        }
        // Reads on after the receiver is gone, so that fio never blocks on a full pipe.
        let _ = LiveRates::parse(&String::from_utf8_lossy(&line)).map(|rates| sender.send(rates));
        line.clear();
    }
}

impl LiveRates {
    /// Sums the groups of `…[r=186MiB/s,w=309MiB/s][r=23.8k,w=39.5k IOPS]…`.
    fn parse(line: &str) -> Option<Self> {
        let mut brackets = line.split('[').filter_map(|part| part.split(']').next());
        let bytes = brackets.find(|part| part.contains("B/s"))?;
        let ops = brackets.next()?.strip_suffix(" IOPS")?;
        let sum = |list: &str| list.split(',').filter_map(|one| number(one.split_once('=')?.1)).sum();
        Some(Self { ops_per_s: sum(ops), bytes_per_s: sum(bytes) })
    }
}

/// `23.8k` is 23,800 and `186MiB/s` is 186 × 2^20.
fn number(text: &str) -> Option<f64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let base: f64 = if unit.contains('i') { 1024.0 } else { 1000.0 };
    let power = unit.chars().next().and_then(|letter| "kmgtp".find(letter.to_ascii_lowercase()));
    let power = power.and_then(|power| i32::try_from(power + 1).ok()).unwrap_or(0);
    Some(number.parse::<f64>().ok()? * base.powi(power))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_from_the_line_for_people() {
        let line =
            "Jobs: 4 (f=4): [m(2),W(2)][75.0%][r=186MiB/s,w=309KiB/s][r=23.8k,w=395 IOPS][eta 00m:01s]";
        let rates = LiveRates::parse(line).unwrap();
        assert!((rates.ops_per_s - 24_195.0).abs() < 0.1, "{rates:?}");
        assert!((rates.bytes_per_s - (186.0 * 1024.0 + 309.0) * 1024.0).abs() < 1.0, "{rates:?}");
        for line in ["Jobs: 4 (f=0)", "", "Jobs: 1 (f=1): [W(1)][-.-%][eta 00m:01s]"] {
            assert_eq!(LiveRates::parse(line), None, "{line}");
        }
        assert_eq!(["1", "2k", "3MB/s", "4KiB/s"].map(number), [1.0, 2e3, 3e6, 4096.0].map(Some));
    }

    #[test]
    fn missing_and_old_programs_are_told_with_what_to_do() {
        let missing = Tool::named("fio-that-nobody-has").unwrap_err().to_string();
        assert!(missing.contains("apt-get install fio"), "{missing}");
        for (version, is_good) in
            [("fio-3.33", true), ("fio-3.1", true), ("fio-4.0-dirty", true), ("fio-2.21", false), ("", false)]
        {
            assert_eq!(check_age(version).is_ok(), is_good, "{version}");
        }
    }
}
