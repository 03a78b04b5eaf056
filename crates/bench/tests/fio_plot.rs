//! The output of `report::document::fio`, drawn by the real fio-plot.

use std::path::{Path, PathBuf};
use std::process::Command;

use report::document::{fio, sample};
use report::result;

const PNG: [u8; 8] = *b"\x89PNG\r\n\x1a\n";

fn written(name: &str, run: &result::Run) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    for file in fio::files(run) {
        let path = directory.join(file.path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, file.text).unwrap();
    }
    directory
}

fn draw(input: &Path, output: &str, arguments: &[&str]) {
    let program = std::env::var_os("FIO_PLOT").unwrap_or_else(|| "fio-plot".into());
    let picture = Path::new(env!("CARGO_TARGET_TMPDIR")).join(output);
    let _ = std::fs::remove_file(&picture);
    let done = Command::new(program)
        .args(["-T", "Plimsoll", "-i"])
        .args([input, Path::new("-o"), &picture])
        .args(arguments)
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    let bytes = std::fs::read(&picture).unwrap_or_else(|wrong| panic!("{output}: {wrong}; {done:?}"));
    assert!(bytes.starts_with(&PNG) && bytes.len() > 10_000, "{} bytes", bytes.len());
}

#[test]
#[ignore = "needs fio-plot, by its path in FIO_PLOT or as a command"]
fn bars_over_depths_and_a_histogram() {
    let input = written("fio-plot-depths", &sample::depths()).join("4-kib-random");
    let depths = ["-d", "1", "2", "4", "8", "16", "32", "-n", "8", "-r", "randread"];
    draw(&input, "fio-plot-bars.png", &[&["-l", "--show-cpu"], &depths[..]].concat());
    draw(&input, "fio-plot-histogram.png", &["-H", "-d", "16", "-n", "8", "-r", "randread"]);
    draw(&input, "fio-plot-3d.png", &[&["-L", "-t", "lat"], &depths[..]].concat());
}

#[test]
#[ignore = "needs fio-plot, by its path in FIO_PLOT or as a command"]
fn reads_of_a_mix() {
    let input = written("fio-plot-mixes", &sample::gcnv()).join("64-kib-sequential/rwmixread75");
    draw(&input, "fio-plot-mix.png", &["-N", "-d", "16", "-n", "48", "-r", "rw", "-f", "read"]);
}
