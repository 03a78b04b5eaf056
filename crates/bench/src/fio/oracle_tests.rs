//! Tests of option parsing against the installed fio.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};

use super::jobs::Jobs;
use super::number::{self, Part, SECOND};
use super::options::{self, Kind};
use super::tool::Tool;

fn ask(arguments: &[&str]) -> String {
    let output = Command::new("fio").args(arguments).stdin(Stdio::null()).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The table is that of 3.33; newer versions have more options.
fn is_installed() -> bool {
    match Tool::find() {
        Ok(_) => true,
        Err(why) => {
            println!("skipped: {why}");
            false
        }
    }
}

/// Whether fio accepts the option, and the number in each part.
#[derive(Debug, Default, PartialEq, Eq)]
struct Verdict {
    is_refused: bool,
    parts: Vec<Option<i64>>,
}

/// Parses all options as one job, which continues after refused ones. Returns fio's log by option.
fn verdicts(options: &[(&str, &str)], kb_base: u64) -> Vec<Verdict> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("all.fio");
    let mut text = format!("[a]\nkb_base={kb_base}\nioengine=null\nsize=1m\n");
    options.iter().for_each(|(name, value)| writeln!(text, "{name}={value}").unwrap());
    fs::write(&path, text).unwrap();
    let log = ask(&["--debug=parse", "--parse-only", path.to_str().unwrap()]);
    let mut found: BTreeMap<String, Verdict> = BTreeMap::new();
    let mut current = String::new();
    for line in log.lines() {
        if let Some(refused) = line.strip_prefix("fio: failed parsing ") {
            found.entry(refused.trim_end().to_owned()).or_default().is_refused = true;
        } else if let Some((_, option)) = line.split_once(" handle_option=") {
            current = option.replacen(", ptr=", "=", 1);
            found.insert(current.clone(), Verdict::default());
        } else if let Some((_, part)) = line.split_once("  ret=") {
            let (refused, number) = part.split_once(", out=").unwrap();
            let number = number.parse::<u64>().map_or_else(|_| number.parse().unwrap(), u64::cast_signed);
            let verdict = found.get_mut(&current).unwrap();
            verdict.parts.push((refused == "0").then_some(number));
        }
    }
    let of = |(name, value): &(&str, &str)| {
        let name = options::find(name).unwrap().name;
        found.remove(&format!("{name}={value}")).unwrap_or_else(|| panic!("{name}={value}: {log}"))
    };
    options.iter().map(of).collect()
}

fn sizes() -> Vec<String> {
    let mut all = Vec::new();
    for number in ["1", "4", "16", "100", "0x10", "0X1f", "007"] {
        for unit in [
            "", "b", "k", "K", "kb", "kB", "ki", "kib", "KiB", "m", "MiB", "g", "GB", "t", "p", "q", "kx",
            "x",
        ] {
            all.push(format!("{number}{unit}"));
        }
    }
    let odd = [
        ",8k",
        "8k,",
        "4k,8k",
        "4k,8k,16k",
        "4k-16k",
        "4k:8k",
        "4k/8k",
        "1.5g",
        "k",
        "true",
        "",
        "(4*2)k",
        "50%",
        "-1",
        "+4k",
        " 8k",
        "4 k",
        "0",
        "0,8k",
        "0x",
        "4kib,4k",
        "1e3",
        "99999999p",
        "4k,0x100",
        "4096b,1mib",
        ",,4k",
        "8k:0x10",
        "10x",
    ];
    all.extend(odd.map(str::to_owned));
    all
}

fn times() -> Vec<String> {
    let mut all = Vec::new();
    for number in ["1", "5", "90", "0x10"] {
        for unit in
            ["", "us", "usec", "ms", "MS", "msec", "s", "S", "sec", "m", "min", "h", "H", "hours", "d", "w"]
        {
            all.push(format!("{number}{unit}"));
        }
    }
    all.extend(["1h30m", "5.5s", "1:30", "10,20", ",20", "s", "", "-5", "1m-2m", "0"].map(str::to_owned));
    all
}

/// Numbers as this crate reads them.
fn read_here(kind: Kind, text: &str, base: u64) -> Vec<Option<i64>> {
    let number = |part: Part| match part {
        Part::Number(number) => number.cast_signed(),
        Part::Share(percent) => -1 - percent.cast_signed(),
        Part::Negative => -1,
    };
    let read = |piece| match kind {
        Kind::Seconds => number::time(piece, SECOND),
        Kind::Microseconds => number::time(piece, 1),
        _ => number::bytes(piece, base),
    };
    number::parts(text).map(|piece| read(piece).map(number)).collect()
}

#[test]
fn numbers_mean_what_fio_reads() {
    if !is_installed() {
        return;
    }
    let (sizes, times) = (sizes(), times());
    let mut compared = 0;
    for base in [1024, 1000] {
        let mut options: Vec<(&str, &str)> = Vec::new();
        for name in ["bs", "size", "io_size", "iodepth", "randseed", "rate", "fsync"] {
            options.extend(sizes.iter().map(|text| (name, text.as_str())));
        }
        for name in ["runtime", "ramp_time", "thinktime"] {
            options.extend(times.iter().map(|text| (name, text.as_str())));
        }
        for ((name, text), verdict) in options.iter().zip(verdicts(&options, base)) {
            let known = options::find(name).unwrap();
            let is_taken = known.check(Some(text), base).is_ok();
            // fio lets numbers overflow, and takes percent and negative numbers for very large ones where it knows neither.
            let is_large = |part| matches!(part, Some(Part::Number(number)) if number > i32::MAX as u64);
            let is_int = ["iodepth", "fsync"].contains(name);
            let is_cut = is_int && number::parts(text).any(|piece| is_large(number::bytes(piece, base)));
            let is_nonsense = is_cut || text.contains("99999999p") || text.contains(['%', '-']);
            assert!(!is_taken || !verdict.is_refused, "{name}={text}: {verdict:?}");
            assert!(is_taken || verdict.is_refused || is_nonsense, "{name}={text}: {verdict:?}");
            if is_taken {
                let mut here = read_here(known.kind, text, base);
                // fio logs one more for a comma at the end, and nothing readable for a negative number.
                here.truncate(verdict.parts.len());
                let is_negative = |part: &Option<i64>| part.is_some_and(|number| number < 0);
                let is_same = here
                    .iter()
                    .zip(&verdict.parts)
                    .all(|(here, there)| here == there || is_negative(here) && is_negative(there));
                assert!(is_same, "{name}={text} with {base}: {here:?} here, {:?} there", verdict.parts);
                compared += 1;
            }
        }
    }
    assert!(compared > 500, "{compared}");
}

#[test]
fn words_and_switches_are_taken_where_fio_takes_them() {
    if !is_installed() {
        return;
    }
    let values = [
        "0",
        "1",
        "2",
        "0x1",
        "01",
        "1x",
        "true",
        "false",
        "yes",
        "on",
        "",
        "none",
        "sync",
        "dsync",
        "read",
        "randrw",
        "randread",
        "read,write",
        "Read",
        "native",
        "posix",
        "keep",
        "1024",
        "1000",
        " 1",
        "truncate",
    ];
    let names = [
        "direct",
        "buffered",
        "invalidate",
        "end_fsync",
        "overwrite",
        "randrepeat",
        "time_based",
        "group_reporting",
        "norandommap",
        "stonewall",
        "zero_buffers",
        "sync",
        "rw",
        "fallocate",
        "rwmixread",
        "numjobs",
        "unified_rw_reporting",
        "clocksource",
        "mem",
        "lockfile",
        "description",
    ];
    let options: Vec<(&str, &str)> =
        names.iter().flat_map(|name| values.iter().map(move |value| (*name, *value))).collect();
    for ((name, value), verdict) in options.iter().zip(verdicts(&options, 1024)) {
        let is_taken = options::find(name).unwrap().check(Some(value), 1024);
        assert_eq!(is_taken.is_err(), verdict.is_refused, "{name}={value}: {is_taken:?}");
    }
}

#[test]
fn word_behind_an_option_is_its_value_where_fio_takes_it() {
    if !is_installed() {
        return;
    }
    for options in [
        "--direct 1",
        "--direct=1",
        "--direct true",
        "--time_based --rw=randwrite",
        "--time_based=0 --rw=randwrite",
        "--ioengine=io_uring --hipri --rw=randwrite",
        "--hipri --rw=randwrite",
        "--ioengine=libaio --userspace_reap --bs=8k",
        "--numj=4",
        "--runt 5",
        "--rw randread --group_rep",
        "-rw randread",
        "-direct=1",
        "--blocksize 8k",
        "--i=1",
        "--io=1",
        "--stonewall --thread --new_group",
        "--odd=1",
        "--minimal --rw=write",
        "-m --rw=write",
        "--eta never --rw=write",
        "--append-terse --rw=write",
        "--readonly",
        "--direct --rw=randwrite",
        "--bs=,8k --rw=randrw",
        "--zero_buffers=0",
    ] {
        let command = format!("fio --name=a --size=1m {options}");
        let words: Vec<&str> = command.split(' ').skip(1).chain(["--parse-only"]).collect();
        let status = Command::new("fio").args(words).stdin(Stdio::null()).output().unwrap().status;
        let here = Jobs::from_command(&command);
        // Options that fio does not know are reported, not refused: a newer fio may know them.
        let is_taken = here.as_ref().is_ok_and(|jobs| {
            jobs.jobs.iter().all(|job| {
                let known = |option: &String| options::find(option.split('=').next().unwrap()).is_some();
                job.of_other_engines.is_empty() && job.unknown.iter().all(known)
            })
        });
        assert_eq!(is_taken, status.success(), "{command}: {here:?}");
    }
}

#[test]
fn parts_of_a_block_size_go_where_fio_puts_them() {
    if !is_installed() {
        return;
    }
    for value in [
        "8k",
        ",8k",
        "8k,",
        "8k,16k",
        "8k,16k,32k",
        "4k-16k",
        "8k:16k",
        "0x1000",
        "4096b",
        "4kib",
        "0,8k",
        ",,8k",
    ] {
        let command = format!("fio --name=a --rw=randrw --size=128k --ioengine=null --bs={value}");
        let said = ask(&command.split(' ').skip(1).collect::<Vec<_>>());
        let job = Jobs::from_command(&command).unwrap().jobs.remove(0);
        let size_after = |mark: &str| -> f64 {
            let shown = said.split_once(mark).and_then(|(_, rest)| rest.split('-').next()).unwrap();
            match shown.strip_suffix("KiB") {
                Some(kib) => kib.parse::<f64>().unwrap() * 1024.0,
                None => shown.strip_suffix('B').unwrap().parse().unwrap(),
            }
        };
        let theirs = (size_after("(R) "), size_after("(W) "));
        assert_eq!((job.read_block as f64, job.write_block as f64), theirs, "{value}");
    }
}

fn kind_of(help: &str) -> Option<&str> {
    let line = help.lines().find_map(|line| line.trim().strip_prefix("type: "))?;
    Some(match line {
        "empty or boolean value ([0|1])" => "switch",
        "boolean value (opt=1)" => "bool",
        "string with time postfix (opt=10s)" => "time",
        "integer value (opt=100)" => "number",
        _ => "text",
    })
}

fn is_same_kind(kind: Kind, theirs: &str) -> bool {
    match theirs {
        "switch" => kind == Kind::Switch,
        "bool" => kind == Kind::Bool,
        "time" => matches!(kind, Kind::Seconds | Kind::Microseconds),
        "number" => matches!(kind, Kind::Number | Kind::Microseconds | Kind::Text),
        // fio calls numbers of several kinds strings.
        _ => matches!(kind, Kind::Text | Kind::Store | Kind::Number | Kind::Zone),
    }
}

#[test]
fn every_option_that_fio_has_is_in_the_table() {
    if !is_installed() {
        return;
    }
    let named = |help: &str| -> Vec<String> {
        let names =
            help.lines().filter_map(|line| line.split_once(": ")).map(|(name, _)| name.trim().to_owned());
        names.filter(|name| !name.is_empty()).collect()
    };
    let options = named(&ask(&["--cmdhelp=all"]));
    assert!(options.len() > 150, "{options:?}");
    for name in &options {
        let help = ask(&[&format!("--cmdhelp={name}")]);
        let known = options::find(name).unwrap_or_else(|| panic!("{name} is missing"));
        let theirs = kind_of(&help).unwrap_or("text");
        assert!(is_same_kind(known.kind, theirs), "{name} is {theirs}, not {:?}", known.kind);
        if let Some(alias) = help.lines().find_map(|line| line.trim().strip_prefix("alias: ")) {
            assert_eq!(options::find(alias).map(|known| known.name), Some(name.as_str()), "{alias}");
        }
    }
    let engines = ask(&["--enghelp"]);
    for engine in engines.lines().skip(1).map(str::trim).filter(|engine| !engine.is_empty()) {
        for name in named(&ask(&[&format!("--enghelp={engine}")])) {
            let help = ask(&[&format!("--enghelp={engine},{name}")]);
            let known = options::find(&name).unwrap_or_else(|| panic!("{name} of {engine} is missing"));
            assert!(known.engines.contains(&engine), "{name} of {engine}");
            let theirs = kind_of(&help).unwrap_or("text");
            assert!(is_same_kind(known.kind, theirs), "{name} is {theirs}, not {:?}", known.kind);
        }
    }
}
