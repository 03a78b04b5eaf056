//! The published pages and curves, as commands.

use crate::rig::plimsoll;
use envelope::{Page, Shape};
use report::document::sample;
use serde_json::Value;

fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let output = plimsoll(None).args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[track_caller]
fn says(args: &[&str]) -> String {
    let (status, text, error) = run(args);
    assert_eq!(status, Some(0), "{args:?}: {error}");
    text
}

#[track_caller]
fn contains(text: &str, parts: &[&str]) {
    parts.iter().for_each(|part| assert!(text.contains(part), "{part}: {text}"));
}

#[test]
fn every_page_is_shown_with_all_that_is_published_on_it() {
    let list = says(&["page", "list"]);
    for page in Page::all() {
        assert!(list.contains(page.name), "{list}");
        let text = says(&["page", "show", page.name]);
        assert_eq!(says(&["page", page.name]), text, "both spellings");
        contains(&text, &[page.title, page.source.page]);
        page.parts.iter().for_each(|part| contains(&text, &[part.title]));
        for part in page.parts {
            contains(&text, part.published);
        }
        for conflict in page.conflicts() {
            contains(&text, &[conflict.name, conflict.text]);
        }
        for scenario in page.scenarios {
            assert!(report::scenario::by_name(scenario).is_some(), "{scenario}");
        }
        let json: Value = serde_json::from_str(&says(&["page", "show", page.name, "--json"])).unwrap();
        assert_eq!((&json["format"], &json["name"]), (&"plimsoll/1".into(), &page.name.into()));
        assert_eq!(json["parts"].as_array().unwrap().len(), page.parts.len());
    }
}

#[test]
fn tables_headlines_and_what_they_stand_for_are_those_of_the_pages() {
    let gcnv = says(&["page", "show", "gcnv"]);
    contains(
        &gcnv,
        &[
            "Read MiB/s   5,237  2,284  1,415    610      0",
            "In the page's text: about 4,300 MiB/s read and about 1,480 MiB/s written.\n",
            "about 5,240 MiB/s read and about 2,180 MiB/s written. The table counts: 2,180 is not 2,172 rounded.",
            "For information only",
            "estimates of the maximum",
            "16 for each RSS network interface",
            "the profile gcnv-large-12.5gib or gcnv-large-21.5gib or gcnv-large-30gib",
            "plimsoll volume watch NAME",
        ],
    );
    let filestore = says(&["page", "show", "filestore"]);
    contains(
        &filestore,
        &[
            "Filestore High Scale SSD, 320 TB",
            "480,000     160,000     16,000       3,520",
            "4 KiB",
            "sync=1",
        ],
    );
    let regular = says(&["page", "show", "anf-regular"]);
    contains(&regular, &["media rendering, AI/ML", "databases", "media repositories", "> 3,500", "17 %"]);
    let large = says(&["page", "show", "anf-large"]);
    contains(&large, &["more than 700,000 IOPS read", "7.20"]);
    let eda = says(&["page", "show", "anf-eda"]);
    contains(&eda, &["39,601", "692", "652,260", "10,030", "below 1 ms"]);
}

#[test]
fn one_table_is_shown_alone_and_others_are_refused() {
    let one = says(&["page", "show", "gcnv", "--table", "gcnv-extreme-nfs3-64k-seq"]);
    contains(&one, &["gcnv-extreme-nfs3-64k-seq", "5,237", "gcnv-extreme-vs-docs-cap", "n2-standard-32"]);
    assert!(!one.contains("gcnv-extreme-nfs3-256k-seq") && !one.contains("gcnv-flex-not-reached"), "{one}");
    let (status, _, error) = run(&["page", "show", "gcnv", "--table", "anf-large-8k-rand"]);
    assert_eq!(status, Some(2));
    contains(&error, &["\"anf-large-8k-rand\" is no table of the page gcnv; allowed: gcnv-flex-custom"]);
    let (status, _, error) = run(&["page", "show", "azure"]);
    assert_eq!(status, Some(2));
    contains(&error, &["[possible values: gcnv, filestore, anf-large, anf-regular, anf-eda]"]);
    assert_eq!(run(&["page"]).0, Some(2), "a page or a command is wanted");
}

#[test]
fn a_run_stands_beside_its_page() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.json");
    std::fs::write(&file, serde_json::to_vec(&sample::gcnv()).unwrap()).unwrap();
    let with = ["page", "show", "gcnv", "--run", file.to_str().unwrap()];
    let text = says(&with);
    contains(&text, &["Measured total", "Measured / page"]);
    let json: Value = serde_json::from_str(&says(&[&with[..], &["--json"]].concat())).unwrap();
    let tables = json["parts"].as_array().unwrap().iter().flat_map(|part| part["tables"].as_array().unwrap());
    let figures = tables.flat_map(|table| table["figures"].as_array().unwrap());
    assert!(figures.clone().any(|figure| figure["measured"].is_number()));
    assert!(figures.clone().any(|figure| figure["measured"].is_null()), "the run is of some tables alone");
    let (status, _, error) = run(&["page", "show", "gcnv", "--run", "/nowhere/run.json"]);
    assert_eq!(status, Some(1));
    contains(&error, &["/nowhere/run.json"]);
}

#[test]
fn every_shape_is_a_table_a_picture_and_json() {
    for shape in Shape::all() {
        let text = says(&["level", "shape", shape.name()]);
        assert!(text.lines().count() > 14 && text.contains('█'), "{text}");
        let published = text.lines().filter(|line| line.ends_with("published")).count();
        assert_eq!(published, shape.knots().len(), "{text}");
    }
    let name = "gcnv-extreme-nfs3-8k-rand";
    let json: Value =
        serde_json::from_str(&says(&["level", "shape", name, "--scale", "0.5", "--json"])).unwrap();
    assert_eq!((&json["name"], &json["points"][0]["iops"]), (&name.into(), &132_500.into()));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("curve.svg");
    says(&["level", "shape", name, "-o", file.to_str().unwrap()]);
    assert!(std::fs::read_to_string(file).unwrap().starts_with("<svg xmlns="));
    assert_eq!(run(&["level", "shape", "gcnv"]).0, Some(2));
}
