//! Runs and fio's figures; which form a text has.

use envelope::{Access, Bytes, Level, Protocol, Stream};
use report::document::sample;
use report::result::{Caveat, CaveatKind, MountFacts, Run};
use report::scenario::Work;

use super::*;

/// Two jobs at the same time, the first with two processes, then another job. The form is that of fio 3.33,
/// without unused parts.
const FIO: &str = r#"fio: this line is no figure
{
  "fio version" : "fio-3.33",
  "global options" : {"directory" : "/mnt", "size" : "4g", "direct" : "1", "ioengine" : "libaio"},
  "jobs" : [
    {"jobname" : "mix", "groupid" : 0, "error" : 0,
      "job options" : {"rw" : "randrw", "rwmixread" : "50", "bs" : "8k", "numjobs" : "2"},
      "read" : {"io_bytes" : 8192000, "runtime" : 1000, "total_ios" : 1000, "lat_ns" : {"max" : 900000, "mean" : 500000.0, "N" : 1000}, "clat_ns" : {"max" : 1, "mean" : 1.0, "N" : 1000}},
      "write" : {"io_bytes" : 4096000, "runtime" : 1000, "total_ios" : 500, "lat_ns" : {"max" : 900000, "mean" : 800000.0, "N" : 500}, "clat_ns" : {"max" : 1, "mean" : 1.0, "N" : 500}},
      "job_runtime" : 1000, "usr_cpu" : 1.0, "sys_cpu" : 2.0},
    {"jobname" : "mix", "groupid" : 0, "error" : 0,
      "job options" : {"rw" : "randrw", "rwmixread" : "50", "bs" : "8k", "numjobs" : "2"},
      "read" : {"io_bytes" : 16384000, "runtime" : 2000, "total_ios" : 2000, "lat_ns" : {"max" : 900000, "mean" : 500000.0, "N" : 2000}, "clat_ns" : {"max" : 1, "mean" : 1.0, "N" : 2000}},
      "write" : {"io_bytes" : 8192000, "runtime" : 2000, "total_ios" : 1000, "lat_ns" : {"max" : 900000, "mean" : 800000.0, "N" : 1000}, "clat_ns" : {"max" : 1, "mean" : 1.0, "N" : 1000}},
      "job_runtime" : 2000, "usr_cpu" : 1.0, "sys_cpu" : 2.0},
    {"jobname" : "seq", "groupid" : 0, "error" : 0, "job options" : {"rw" : "rw", "bs" : "64k,1m"},
      "read" : {"io_bytes" : 65536000, "runtime" : 1000, "total_ios" : 1000, "lat_ns" : {"max" : 900000, "mean" : 500000.0, "N" : 1000}, "clat_ns" : {"max" : 1, "mean" : 1.0, "N" : 1000}},
      "write" : {"io_bytes" : 104857600, "runtime" : 1000, "total_ios" : 100, "lat_ns" : {"max" : 900000, "mean" : 500000.0, "N" : 100}, "clat_ns" : {"max" : 1, "mean" : 1.0, "N" : 100}},
      "job_runtime" : 1000, "usr_cpu" : 1.0, "sys_cpu" : 2.0},
    {"jobname" : "later", "groupid" : 1, "error" : 0,
      "job options" : {"rw" : "write", "bssplit" : "4k/50:12k/50", "rate_iops" : "100", "size" : "50%"},
      "write" : {"io_bytes" : 8192000, "runtime" : 1000, "total_ios" : 1000, "lat_ns" : {"max" : 9, "mean" : 0.0, "N" : 0}, "clat_ns" : {"max" : 9, "mean" : 250000.0, "N" : 1000}},
      "job_runtime" : 1000, "usr_cpu" : 1.0, "sys_cpu" : 2.0}
  ]
}
Run status group 0 (all jobs):
"#;

fn cell(number: usize) -> Pick {
    Pick { cell: Some(number), ..Pick::default() }
}

fn refused(text: &str, pick: &Pick) -> String {
    read("it", text, pick).unwrap_err().to_string()
}

/// Access, block, thousandths of reads, and bytes per second.
fn plain(streams: &[Stream]) -> Vec<(Access, u64, u32, u64)> {
    let plain = |one: &Stream| (one.access, one.block.0, one.read_thousandths, one.rate.0);
    streams.iter().map(plain).collect()
}

#[test]
fn fio_s_jobs_at_the_same_time_are_one_load() {
    let all = refused(FIO, &Pick::default());
    assert!(
        all.contains("2 groups")
            && all.contains("--cell N:\n  1: mix, seq (")
            && all.contains("\n  2: later"),
        "{all}"
    );
    let both = read("out.json", FIO, &cell(1)).unwrap();
    let wanted = [
        (Access::Random, 8192, 667, 2 * (8_192_000 + 4_096_000)),
        (Access::Sequential, 65_536, 1000, 65_536_000),
        (Access::Sequential, 1 << 20, 0, 104_857_600),
    ];
    assert_eq!(plain(&both.streams), wanted);
    assert!(both.source.starts_with("fio-3.33 output out.json: mix, seq"), "{}", both.source);
    assert_eq!((both.clients, both.working_set), (Some(1), Some(Bytes::gib(12))));
    // 4100 of 0.5 ms, and 1500 of 0.8 ms.
    assert_eq!(both.latency_us, Some(580));
    assert_eq!(both.notes, ["The load is what fio reached, not what an application asks for."]);
}

#[test]
fn fio_s_many_sizes_count_by_their_mean() {
    let later = read("out.json", FIO, &cell(2)).unwrap();
    assert_eq!(plain(&later.streams), [(Access::Sequential, 8192, 0, 8_192_000)]);
    assert_eq!((later.latency_us, later.working_set), (Some(250), Some(Bytes::gib(4))));
    assert!(later.notes.len() == 1 && later.notes[0].contains("bssplit"), "{:?}", later.notes);
    let buffered = FIO.replace(r#""direct" : "1""#, r#""direct" : "0""#);
    assert!(read("x", &buffered, &cell(2)).unwrap().notes[1].contains("page cache"));
}

#[test]
fn fio_s_clients_add_up_without_their_sum() {
    let job = |name: &str, host: &str, bytes: u64| {
        format!(
            r#"{{"jobname": "{name}", "groupid": 0, "error": 0, "hostname": "{host}", "usr_cpu": 0.0, "sys_cpu": 0.0,
            "job options": {{"rw": "randread", "bs": "4k", "size": "1g", "numjobs": "2"}},
            "read": {{"io_bytes": {bytes}, "runtime": 1000, "total_ios": 10, "lat_ns": {{"max": 9, "mean": 9.0, "N": 10}},
            "clat_ns": {{"max": 9, "mean": 9.0, "N": 10}}}}}}"#
        )
    };
    let jobs = [job("x", "a", 40_960), job("x", "b", 81_920), job("All clients", "b", 122_880)].join(",");
    let text = format!(r#"{{"fio version": "fio-3.33", "client_stats": [{jobs}]}}"#);
    let found = read("x", &text, &Pick::default()).unwrap();
    assert_eq!(plain(&found.streams), [(Access::Random, 4096, 1000, 122_880)]);
    assert_eq!((found.clients, found.working_set), (Some(2), Some(Bytes::gib(4))));
}

#[test]
fn fio_without_a_result_is_refused() {
    let failed = FIO.replace(r#""groupid" : 1, "error" : 0"#, r#""groupid" : 1, "error" : 28"#);
    assert!(refused(&failed, &cell(2)).contains("error 28"));
    assert!(read("x", &failed, &Pick::default()).is_ok(), "the other group is the only one left");
    let timeless = FIO.replace(r#""runtime" : 1000"#, r#""runtime" : 0"#);
    assert!(refused(&timeless, &Pick::default()).contains("in no time"));
    assert!(
        refused(FIO, &cell(3)).contains("no such load") && refused(FIO, &cell(0)).contains("no such load")
    );
    let trims = FIO.replace(r#""rw" : "write""#, r#""rw" : "trim""#);
    assert!(refused(&trims, &cell(2)).contains("job later: rw: \"trim\" trims"));
    let cut = &FIO[..FIO.len() / 2];
    assert!(refused(cut, &Pick::default()).contains("EOF"), "{}", refused(cut, &Pick::default()));
    let nothing = r#"{"fio version": "fio-3.33", "jobs": []}"#;
    assert!(refused(nothing, &Pick::default()).contains("it is empty"));
}

fn text(run: &Run) -> String {
    serde_json::to_string(run).unwrap()
}

#[test]
fn cell_of_a_run_is_a_load() {
    let mut run = sample::gcnv();
    run.file_sizes = vec![1 << 30; run.scenario.series.len()];
    let all = refused(&text(&run), &Pick::default());
    assert!(
        all.contains("it has 19 cells; say which with --cell N:\n  1: ") && !all.contains("\n  14: "),
        "{all}"
    );
    let found = read("run.json", &text(&run), &cell(2)).unwrap();
    let (measured, series) = (&run.cells[1], &run.scenario.series[0]);
    let [one] = found.streams.as_slice() else { panic!("{found:?}") };
    assert_eq!((one.access, one.block, one.read_thousandths), (Access::Sequential, Bytes(65_536), 750));
    let rate = measured.summary.mib_per_s.median * f64::from(1 << 20);
    assert!((one.rate.0 as f64 / rate - 1.0).abs() < 1e-6, "{} {rate}", one.rate);
    let files = (series.jobs * measured.point.clients) as u64;
    assert_eq!(found.working_set, Some(Bytes(files << 30)));
    assert_eq!(found.clients, u32::try_from(measured.point.clients).ok());
    assert_eq!(found.connections, u32::try_from(measured.point.connections).ok());
    assert_eq!(found.protocol, Some(Protocol::NfsV3));
    let latency = measured.summary.latency.mean_ms * 1e3;
    assert!((found.latency_us.unwrap() as f64 / latency - 1.0).abs() < 0.01);
    assert!(
        found.source.contains("run.json, run of 2026-09-21") && found.source.contains("75 % reads"),
        "{}",
        found.source
    );
    assert!(refused(&text(&run), &cell(14)).contains("nothing was measured that counts"));
    assert!(read("x", &text(&run), &cell(7)).unwrap().notes[2].contains("30 seconds differ"));
}

#[test]
fn job_sets_are_the_mix_of_eda_and_whole_files_are_refused() {
    let mut run = sample::eda();
    let found = read("run.json", &text(&run), &cell(2)).unwrap();
    let [stream] = found.streams.as_slice() else { panic!("{found:?}") };
    assert_eq!(stream.access, Access::Eda);
    assert!(stream.iops().0.abs_diff(18 * 450) < 100, "{}", stream.iops());
    assert_eq!(found.working_set, Some(Bytes(18 * crate::eda::mix::bytes_per_set(1000))));
    run.scenario.series[0].work = Work::OpenRead;
    assert!(refused(&text(&run), &cell(2)).contains("only data can be sized"));
    assert!(refused(&text(&run), &Pick::default()).contains("none of its cells can be sized"));
}

#[test]
fn runs_of_other_formats_and_halves_of_runs_are_refused() {
    let run = text(&sample::eda());
    let newer = run.replace("plimsoll-run/1", "plimsoll-run/2");
    assert!(
        refused(&newer, &Pick::default())
            .contains("the format is \"plimsoll-run/2\", not \"plimsoll-run/1\"")
    );
    assert!(
        refused(&run[..run.len() / 2], &Pick::default())
            .contains("not a result of \"plimsoll bench run\": the file ends too early, at line 1")
    );
    for garbage in ["", "{}", "\u{0}\u{1}", "ops/s", "{\"format\": \"x\"}"] {
        let wrong = refused(garbage, &Pick::default());
        assert!(wrong.contains("nfsiostat prints") && wrong.contains("bench run"), "{wrong}");
    }
}

#[test]
fn options_without_meaning_are_refused() {
    let pattern = Pick { pattern: Some(Access::Random), ..Pick::default() };
    assert_eq!(refused(FIO, &pattern), "it: --pattern has no meaning for fio's figures; allowed: --cell");
    let since = Pick { since: Some(String::new()), ..Pick::default() };
    let report = "a:/b mounted on /b:\n";
    assert_eq!(
        refused(report, &since),
        "it: --since has no meaning for nfsiostat's output; allowed: --pattern, --mount"
    );
}

#[test]
fn run_in_fio_s_form_is_better_given_itself() {
    let document = report::document::fio::document(&sample::depths());
    assert!(refused(&document, &Pick::default()).contains("allowed: the file of the run"));
}

#[test]
fn measured_run_has_cells_and_probes() {
    let run = sample::gcnv();
    let found = measured(&run, "run.json", Level::GcnvExtreme, false).unwrap();
    // 19 cells with a result, each with five other depths beside its own.
    assert_eq!(found.points.len(), 19 * 6);
    assert!(found.points[1].latency_us < found.points[0].latency_us, "less in flight, less time");
    assert!(found.co_located && found.protocol == Protocol::NfsV3);
    let wanted = "run.json, run of 2026-09-21 14:13:20 UTC on nfs://10.0.0.4/v1, client and server on one host, held to its \
                  limits (reads and writes 5,237 MiB/s)";
    assert_eq!(found.source, wanted);
    assert_eq!(found.working_set.0, run.scenario.series.iter().map(|one| one.working_set).max().unwrap());
    let eda = measured(&sample::eda(), "x", Level::AnfUltra, true).unwrap();
    assert!(eda.large && eda.points.iter().all(|point| point.access == Access::Eda));
}

#[test]
fn run_without_level_gives_nothing() {
    let mut run = sample::depths();
    let mount = |kind: &str, options: &str| {
        Some(MountFacts { kind: kind.to_owned(), options: options.to_owned(), ..MountFacts::default() })
    };
    run.target.mount = mount("nfs4", "rw,vers=4.1,nconnect=4");
    assert_eq!(measured(&run, "x", Level::AnfUltra, false).unwrap().protocol, Protocol::NfsV41);
    run.target.mount = mount("ext4", "rw");
    assert!(
        measured(&run, "x", Level::AnfUltra, false)
            .unwrap_err()
            .to_string()
            .contains("says nothing of a level")
    );
    run.target.mount = None;
    run.cells.iter_mut().for_each(|cell| cell.caveats.push(Caveat::new(CaveatKind::Void, "errors")));
    assert!(
        measured(&run, "x", Level::AnfUltra, false).unwrap_err().to_string().contains("none of its cells")
    );
}
