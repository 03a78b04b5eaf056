//! `plimsoll size`: advice, and what is made of it.

use crate::asked::asked;
use crate::rig::{Service, plimsoll};
use serde_json::Value;

/// The flags that let all clients mount.
const ALL: [&str; 2] = ["--allow", "0.0.0.0/0"];

#[test]
fn apply_without_clients_is_refused_and_the_rule_is_that_of_the_flags() {
    let service = Service::start();
    for more in [&["--name", "a"][..], &["--name", "a", "--dry-run"]] {
        let refused = service.refuses(&asked(&["apply"], more));
        for said in ["--allow is missing", "--allow 10.1.0.0/16", "--allow 0.0.0.0/0,::/0 for all clients"] {
            assert!(refused.contains(said), "{said}: {refused}");
        }
    }
    assert_eq!(service.json(&["pool", "list"])["items"].as_array().unwrap().len(), 0);
    service.says(&asked(&["apply"], &["--name", "a", "--allow", "10.1.0.0/16", "--squash", "root"]));
    let rules = &service.json(&["volume", "show", "a"])["rules"];
    assert_eq!((&rules[0]["clients"][0], &rules[0]["squash"]), (&"10.1.0.0/16".into(), &"root".into()));
}

#[test]
fn names_that_a_plan_cannot_have_are_refused_before_anything_is_created() {
    let service = Service::start();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("plan.toml");
    for (names, why) in [(["db", "a b"], "a b"), (["db", "db"], "two workloads have the name db")] {
        let tables = names.map(|name| format!("[[workload]]\nname = \"{name}\"\ncapacity = \"1TiB\"\n"));
        std::fs::write(&file, tables.concat()).unwrap();
        let flags =
            ["size", "apply", "--plan", file.to_str().unwrap(), "--level", "anf/premium", "--name", "p"];
        let refused = service.refuses(&[&flags[..], &ALL].concat());
        assert!(refused.contains(why) && !refused.contains("deleted again"), "{refused}");
    }
    assert_eq!(service.json(&["pool", "list"])["items"].as_array().unwrap().len(), 0);
    assert!(!service.says(&["operation", "list"]).contains("pool"), "none was created and deleted again");
}

#[test]
fn dry_run_is_shown_and_failed_apply_is_undone() {
    let service = Service::start();
    let shown =
        service.says(&asked(&["apply"], &["--name", "a", "--allow", "10.1.0.0/16,fe80::1", "--dry-run"]));
    assert!(shown.contains("Would create the volume a in a, for 10.1.0.0/16, fe80::1"), "{shown}");
    let refused = service.refuses(&asked(&["apply"], &["--name", "no/name", ALL[0], ALL[1]]));
    assert!(refused.contains("no/name"), "{refused}");
    // Another volume has the path.
    service.says(&["pool", "create", "p1", "--level", "anf/ultra", "--size", "4TiB"]);
    service.says(&["volume", "create", "other", "--pool", "p1", "--size", "1TiB", "--share", "a"]);
    let refused = service.refuses(&asked(&["apply"], &["--name", "a", ALL[0], ALL[1]]));
    assert!(refused.contains("the volume other has the path /a already"), "{refused}");
    assert!(!refused.contains("deleted again"), "{refused}");
    // The pool is created, and the service refuses the rule of the volume.
    let refused = service.refuses(&asked(&["apply"], &["--name", "b", "--allow", "10.1.0.0/77"]));
    assert!(refused.contains("the pool b was deleted again"), "{refused}");
    assert_eq!(service.json(&["pool", "list"])["items"].as_array().unwrap().len(), 1);
    // Nothing that fits, nothing made.
    let refused = service.refuses(&[
        "size",
        "apply",
        "--capacity",
        "1TiB",
        "--iops",
        "1M",
        "--level",
        "gcnv/flex",
        "--name",
        "b",
        ALL[0],
        ALL[1],
    ]);
    assert!(refused.contains("nothing carries this workload; gcnv/flex"), "{refused}");
}

#[test]
fn several_volumes_are_numbered() {
    let service = Service::start();
    let more =
        ["size", "apply", "--capacity", "150TiB", "--level", "gcnv/standard", "--regular", "--name", "wide"];
    let apply = [&more[..], &ALL].concat();
    let made = service.says(&apply);
    assert!(
        made.contains("Created the volume wide-1") && made.contains("Created the volume wide-2"),
        "{made}"
    );
    let count = |kind: &str| service.json(&[kind, "list"])["items"].as_array().unwrap().len();
    assert_eq!(count("volume"), 2);
    // Of a name that exists with other properties the first volume is not created either.
    service.says(&["volume", "delete", "wide-1", "--yes"]);
    service.says(&["volume", "resize", "wide-2", "80TiB"]);
    let refused = service.refuses(&apply);
    assert!(refused.contains("wide-2") && !refused.contains("deleted again"), "{refused}");
    assert_eq!(count("volume"), 1);
    let operations = service.says(&["operation", "list"]);
    assert_eq!(operations.matches("wide-1").count(), 2, "created and deleted once: {operations}");
}

#[test]
fn second_apply_changes_nothing_and_another_size_is_refused() {
    let service = Service::start();
    let apply = asked(&["apply"], &["--name", "a", ALL[0], ALL[1]]);
    service.says(&apply);
    let again = service.says(&apply);
    assert!(again.contains("The volume a exists already") && again.contains("Nothing to change"), "{again}");
    let other = ["size", "apply", "--capacity", "9TiB", "--level", "anf/premium", "--name", "a"];
    let refused = service.refuses(&[&other[..], &ALL].concat());
    assert!(refused.contains('a') && !refused.contains("deleted again"), "{refused}");
    assert_eq!(service.json(&["volume", "list"])["items"].as_array().unwrap().len(), 1);
}

const PLAN: &str = r#"
[[workload]]
name = "home"
users = 50
[[workload]]
name = "db"
capacity = "2TiB"
iops = "2k"
read = 70
"#;

#[test]
fn plan_is_applied_with_a_shared_pool_and_a_volume_for_each_workload() {
    let service = Service::start();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("plan.toml");
    std::fs::write(&file, PLAN).unwrap();
    let flags = ["--plan", file.to_str().unwrap(), "--level", "anf/premium", "--regular"];
    let apply = [&["size", "apply"], &flags[..], &["--name", "shared"], &ALL].concat();
    let made = service.says(&apply);
    for said in [
        "Created the pool shared",
        "Created the volume home",
        "Created the volume db: mount -t nfs -o vers=3",
    ] {
        assert!(made.contains(said), "{said}: {made}");
    }
    let mount = made.lines().find(|line| line.starts_with("Created the volume db: ")).unwrap();
    for option in [",mountport=", ",hard,", ",rsize=262144,", ",nconnect=8 "] {
        assert!(mount.contains(option), "one command has all options: {option}: {mount}");
    }
    assert!(!made.contains("Mount db with"), "{made}");
    assert!(service.says(&apply).contains("Nothing to change"));
    assert_eq!(service.json(&["pool", "list"])["items"].as_array().unwrap().len(), 1);
    let (_, text, _) = size(&flags);
    assert!(text.contains("Total: 3 TiB in 1 pool, 2 volumes"), "{text}");
    let (_, json, _) = size(&[&flags[..], &["--json"]].concat());
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["format"], "plimsoll-size-plan/1");
    assert_eq!(json["options"][0]["pools"][0]["volumes"][1]["workload"], "db");
    let (_, text, _) = size(&[&["explain"], &flags[..]].concat());
    assert!(text.contains("== home ==") && text.contains("50 users: 10 GiB and 4 IOPS each"), "{text}");
}

/// A plan whose third workload cannot be measured by the benchmark.
const THREE: &str = r#"
[[workload]]
name = "home"
users = 50
growth = 50
[[workload]]
name = "db"
capacity = "2TiB"
iops = "2k"
read = 70
working-set = "1GiB"
[[workload]]
name = "archive"
capacity = "1TiB"
"#;

#[test]
fn plan_has_a_page_with_costs_and_years() {
    let dir = tempfile::tempdir().unwrap();
    let [file, prices, page] = ["plan.toml", "prices.toml", "plan.html"].map(|name| dir.path().join(name));
    std::fs::write(&file, THREE).unwrap();
    std::fs::write(&prices, size(&["prices", "--example"]).1).unwrap();
    let [file, prices, page] = [&file, &prices, &page].map(|path| path.to_str().unwrap());
    let flags = ["--plan", file, "--prices", prices, "--level", "anf/premium", "--regular", "--years", "3"];
    let (found, text, error) = size(&[&flags[..], &["--html", page]].concat());
    assert!(found, "{error}");
    for said in ["NEXT SIZE", "NEXT LEVEL", "anf/ultra: +", " TiB: +204.80 EXAMPLE"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(text.contains("It carries every year.") && text.contains("sized for year 3"), "{text}");
    assert!(text.contains("home      1.65 TiB       1.98 TiB  50 IOPS"), "{text}");
    let html = std::fs::read_to_string(page).unwrap();
    for said in [
        "<h1>What to buy for 3 workloads: ",
        "EXAMPLE a month",
        "<h2>Years</h2>",
        ">limit: ",
        "users: 10 GiB",
    ] {
        assert!(html.contains(said), "{said}");
    }
    let (_, json, _) = size(&[&flags[..], &["--json"]].concat());
    let json: Value = serde_json::from_str(&json).unwrap();
    let raises = &json["options"][0]["pools"][0]["raises"];
    assert_eq!((&raises[0]["step"], &raises[0]["more_millionths"]), (&"size".into(), &204_800_000.into()));
    assert_eq!(raises[1]["level"], "anf/ultra");
    assert_eq!(json["years"].as_array().unwrap().len(), 4);
    assert!(json["years"][3]["outgrown"].is_null(), "sized for it");
    // The growth of a plan is that of its workloads.
    assert_eq!(status(&["--plan", file, "--growth", "5"]), 2);
    assert_eq!(status(&["--capacity", "1TiB", "--years", "3"]), 2);
    let (_, _, refused) = size(&["--capacity", "1TiB", "--years", "3"]);
    assert!(refused.contains("--years needs the growth") && !refused.contains('<'), "{refused}");
}

/// The printed command of a verb, as arguments.
fn printed<'t>(text: &'t str, verb: &str) -> Vec<&'t str> {
    let start = format!("  plimsoll size {verb} ");
    let line = text.lines().find(|line| line.starts_with(&start));
    line.unwrap_or_else(|| panic!("no {verb}: {text}")).split_whitespace().skip(2).collect()
}

/// The printed command that creates an option, with a name and a client, and without its effect.
fn dry_run<'t>(apply: &[&'t str]) -> Vec<&'t str> {
    let flags = apply.strip_suffix(&["--name", "NAME", "--allow", "CLIENT"]).unwrap();
    [flags, &["--name", "shared", "--allow", "10.1.0.0/16", "--dry-run"]].concat()
}

#[test]
fn printed_apply_creates_the_option_that_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let [file, prices] = ["plan.toml", "prices.toml"].map(|name| dir.path().join(name));
    std::fs::write(&file, THREE).unwrap();
    std::fs::write(&prices, size(&["prices", "--example"]).1).unwrap();
    let [file, prices] = [&file, &prices].map(|path| path.to_str().unwrap());
    let plan = ["--plan", file, "--prices", prices, "--years", "3", "--option", "2", "--wide"];
    let (_, text, _) = size(&plan);
    let total = text.lines().find(|line| line.starts_with("Total: ")).unwrap();
    let apply = printed(&text, "apply");
    assert!(!apply.contains(&"--wide"));
    let created = size(&dry_run(&apply)).1;
    assert!(created.contains(total), "{total}: {created}");
    assert!(printed(&text, "scenario").ends_with(&["--prices", prices, "--years", "3", "--output", "DIR"]));
    let one = ["--like=home", "--users", "500", "--capacity-headroom", "0", "--regular", "--all"];
    let (_, text, _) = size(&one);
    let option = text.lines().find_map(|line| line.strip_prefix("Option 1: ")).unwrap();
    let apply = printed(&text, "apply");
    let created = size(&dry_run(&apply)).1;
    assert!(created.contains(option), "{option}: {created}");
    let explained = size(&printed(&text, "explain")).1;
    assert!(explained.contains(option), "{option}: {explained}");
    let (_, text, _) = size(&["--capacity", "1TiB", "--iops", "1M", "--level", "gcnv/flex"]);
    assert!(!text.contains("plimsoll size apply"), "it would be refused: {text}");
}

#[test]
fn plan_gives_a_scenario_for_each_workload_that_can_be_measured() {
    let dir = tempfile::tempdir().unwrap();
    let (file, loads) = (dir.path().join("plan.toml"), dir.path().join("loads"));
    std::fs::write(&file, THREE).unwrap();
    let flags = ["scenario", "--plan", file.to_str().unwrap()];
    let (found, said, error) = size(&[&flags[..], &["--output", loads.to_str().unwrap()]].concat());
    assert!(found, "{error}");
    assert!(said.contains("/loads/db.toml --target nfs://HOST/db\n"), "{said}");
    assert!(said.contains("Without a scenario: archive: there is no load to measure"), "{said}");
    let mut names: Vec<_> = std::fs::read_dir(&loads).unwrap().map(|one| one.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["db.toml", "home.toml"]);
    let read = |name: &str| std::fs::read_to_string(loads.join(name)).unwrap();
    let scenario: report::scenario::Scenario = read("db.toml").parse().unwrap();
    assert_eq!((scenario.series[0].rate, scenario.series[0].working_set), (Some(2_000.0), 1 << 30));
    let one = ["--capacity", "2TiB", "--iops", "2k", "--level", "anf/premium"];
    let connections = |more: &[&str]| {
        let (_, text, _) = size(&[&["scenario"], &one[..], more].concat());
        text.parse::<report::scenario::Scenario>().unwrap().series[0].connections.clone()
    };
    assert!(size(&one).1.contains("nconnect=8"), "advised");
    assert_eq!((connections(&[]), connections(&["--connections", "3"])), (vec![8], vec![3]));
    let (found, _, error) = size(&flags);
    assert!(!found && error.contains("--output DIR"), "{error}");
}

#[test]
fn short_help_is_short_and_subcommands_do_not_repeat_the_flags() {
    let (_, short, _) = size(&["-h"]);
    assert!(short.lines().count() <= 40, "{short}");
    let (_, long, _) = size(&["--help"]);
    for flag in ["--capacity <", "--headroom <", "--machine <", "--from-volume <", "--json", "--data <"] {
        assert_eq!(long.matches(flag).count(), 1, "{flag}: {long}");
    }
    for verb in ["explain", "apply", "scenario"] {
        let (_, help, _) = size(&[verb, "--help"]);
        assert!(help.contains("The flags of the workload: plimsoll size --help"), "{help}");
        assert!(!help.contains("--capacity") && help.lines().count() < 80, "{help}");
        assert!(!help.contains("--data <"), "{help}");
    }
}

#[test]
fn users_streams_machines_gpus_and_jobs_are_amounts() {
    for (flags, said) in [
        (
            ["--users", "500"],
            "500 users: 10 GiB and 4 IOPS each, 25 % active at the peak: 4.89 TiB and 500 IOPS",
        ),
        (["--streams", "40"], "40 streams: 3 TiB and 83.5 MiB/s each"),
        (["--machines", "50"], "50 machines: 60 GiB and 50 IOPS each, 50 % active"),
        (
            ["--jobs", "100"],
            "100 jobs: 11.05 GiB and 450 IOPS each, 100 % active at the peak: 1.08 TiB and 45,000 IOPS",
        ),
        (["--gpus", "16"], "16 GPUs: 2 TiB and 500 MiB/s each"),
    ] {
        let (found, text, error) = size(&flags);
        assert!(found && text.contains(said) && text.contains("an assumption of Plimsoll"), "{text}{error}");
        assert!(size(&[&["explain"], &flags[..]].concat()).1.contains(said), "{flags:?}");
    }
    let (_, text, _) = size(&[
        "--like",
        "home",
        "--users",
        "500",
        "--iops",
        "9k",
        "--capacity",
        "7TiB",
        "--block",
        "16k",
        "--read",
        "50",
    ]);
    assert!(text.contains("9,000 IOPS of 16 KiB random, 50 % reads") && text.contains("7 TiB"), "{text}");
    for (flags, why) in [
        (&["--like", "home"][..], "give --users N, or the rate"),
        (&["--like", "media", "--users", "5"], "has no users; allowed: --streams"),
        (&["--like", "hpc", "--gpus", "5"], "has no GPUs; allowed: --iops, --throughput"),
        (&["--like", "eda", "--machines", "5"], "--like eda has no machines; allowed: --jobs, --iops"),
        (
            &["--jobs", "5", "--block", "8k"],
            "the mix of an EDA load is fixed; allowed with --like eda: --jobs or --iops",
        ),
        (&["--like", "eda"], "give --jobs N, or --iops, like --iops 30k"),
        (&["--users", "0"], "0"),
        (&["--users", "5", "--gpus", "5"], "cannot be used with"),
    ] {
        let (found, _, error) = size(flags);
        assert!(!found && error.contains(why), "{flags:?}: {error}");
    }
}

#[test]
fn option_is_sized_for_the_last_year_and_each_year_has_its_size() {
    let flags = ["--users", "500", "--growth", "20", "--years", "3", "--level", "anf/premium", "--regular"];
    let (_, text, _) = size(&flags);
    assert!(text.contains("Capacity:  4.89 TiB, 8.44 TiB with 20 % growth a year over 3 years"), "{text}");
    assert!(text.contains("Option 1: anf/premium, a pool of 11 TiB, "), "{text}");
    assert!(text.contains("   2  7.04 TiB  9 TiB   carries it"), "{text}");
    assert!(text.contains("The option is sized for year 3. Each size includes the headroom."), "{text}");
    assert!(text.contains("It carries every year."), "{text}");
    let (_, json, _) = size(&[&flags[..], &["--json"]].concat());
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["years"].as_array().unwrap().len(), 4);
    let (found, _, error) = size(&["--users", "5", "--years", "0", "--growth", "1"]);
    assert!(!found && error.contains("1 to 20"), "{error}");
}

#[test]
fn years_of_the_same_size_have_a_reason() {
    let years = |growth: &str, level: &str| {
        size(&["--capacity", "1TiB", "--growth", growth, "--years", "2", "--level", level]).1
    };
    let said = "Years have the same size where sizes come in steps, or where the load decides.";
    let steps = years("5", "anf/premium");
    assert!(steps.contains(said), "{steps}");
    assert!(!years("20", "gcnv/flex").contains(said));
    let none = years("0", "gcnv/flex");
    assert!(none.contains("Without growth, all years have the same size.") && !none.contains(said), "{none}");
}

#[test]
fn example_prices_give_costs_and_the_cost_of_the_next_steps() {
    let (_, about, _) = size(&["prices"]);
    assert!(about.contains("No provider's prices are included"), "{about}");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("prices.toml");
    std::fs::write(&file, size(&["prices", "--example"]).1).unwrap();
    let prices = file.to_str().unwrap();
    let (_, text, _) = size(&[
        "--capacity",
        "4TiB",
        "--capacity-headroom",
        "0",
        "--iops",
        "5k",
        "--level",
        "anf/premium",
        "--regular",
        "--prices",
        prices,
    ]);
    for said in
        ["Cheapest first", "NEXT LEVEL", "819.20 EXAMPLE", "+204.80", "+409.60", "Next size:", "Next level:"]
    {
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[test]
fn option_carries_what_is_set_and_says_what_it_can_be_raised_to() {
    let flags = ["--capacity", "1TiB", "--throughput", "20MiB/s", "--block", "8k", "--level", "anf/flexible"];
    let (_, text, _) = size(&[&flags[..], &["--capacity-headroom", "0"]].concat());
    assert!(text.contains("volume 26 MiB/s") && text.contains("26 MiB/s of this mix, 3,328 IOPS"), "{text}");
    assert!(text.contains("Can be raised:  to 640 MiB/s, 81,920 IOPS"), "{text}");
}

#[test]
fn headroom_over_the_data_is_shown_and_can_be_changed() {
    let with = |more: &[&str]| {
        let flags = ["--capacity", "10TiB", "--iops", "1k", "--level", "anf/premium", "--regular"];
        let (found, text, error) = size(&[&flags[..], more].concat());
        assert!(found, "{error}");
        text
    };
    let usual = with(&[]);
    for said in [
        "Headroom:  30 % over the peak; 20 % over the data, for snapshots: 12 TiB",
        "Option 1: anf/premium, a pool of 12 TiB",
        "Bottleneck:  capacity, 100.0 % with 20 % headroom: 12 TiB needed of 12 TiB",
        "Next:        level, 1.4 % with 30 % headroom: ",
        "1.1 % at the peak, without headroom",
    ] {
        assert!(usual.contains(said), "{said}: {usual}");
    }
    let exact = with(&["--capacity-headroom", "0"]);
    assert!(exact.contains("Headroom:  30 % over the peak\n"), "{exact}");
    assert!(exact.contains("Bottleneck:  capacity, 100.0 %: 10 TiB needed of 10 TiB"), "{exact}");
    assert!(with(&["--capacity-headroom", "50"]).contains("a pool of 15 TiB"));
    assert_eq!(status(&["--capacity", "1TiB", "--capacity-headroom", "10001"]), 2);
}

#[test]
fn eda_load_is_counted_with_the_data_of_the_page_and_says_so() {
    let flags = ["--capacity", "60TiB", "--like", "eda", "--iops", "400k", "--level", "anf/ultra", "--large"];
    let (_, text, _) = size(&[&["explain", "--wide"], &flags[..]].concat());
    for said in [
        "load      6,304.6 MiB/s + 30 % headroom = 8,196 MiB/s, 520,000 IOPS of 16.14 KiB\n",
        "counted   520,000 IOPS of 15.75 KiB = 7,996.1 MiB/s, as measured on such volumes",
        "7,996.1 MiB/s read and written of 9,216 MiB/s",
        "so 8,196 MiB/s with headroom are 7,996.1 MiB/s here",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let (_, text, _) = size(&["explain", "--capacity", "60TiB", "--iops", "1k", "--level", "anf/ultra"]);
    assert!(!text.contains("counted "), "{text}");
}

#[test]
fn needed_capacity_is_in_the_unit_of_the_bought_one_and_never_more() {
    let (_, text, _) =
        size(&["--like", "home", "--users", "500", "--growth", "20", "--years", "3", "--wide"]);
    assert!(text.contains("snapshots: 10.125 TiB\n"), "{text}");
    assert!(text.contains("10.125 TiB needed of 10.125 TiB"), "{text}");
    assert!(text.contains("filestore/zonal (2 × 5.25 TiB)"), "{text}");
    assert!(text.contains("filestore/zonal (12.5 TiB)"), "{text}");
    let (_, text, _) = size(&["--capacity", "4TiB", "--level", "gcnv/flex"]);
    assert!(text.contains("4915.2 GiB needed of 4916 GiB"), "{text}");
}

#[test]
fn reads_and_writes_that_a_level_limits_apart_are_shown_apart() {
    let with = |read: &str, level: &str| {
        let flags = ["--capacity", "4TiB", "--iops", "12k", "--block", "8k", "--capacity-headroom", "0"];
        size(&[&flags[..], &["--read", read, "--level", level]].concat()).1
    };
    let mixed = with("70", "filestore/basic-ssd");
    for said in [
        "4 TiB  58,333 read + 25,000 write IOPS",
        "reads 455.7 MiB/s, 58,333 IOPS; writes 195.3 MiB/s, 25,000 IOPS: the level limits them apart",
        "no page says whether it reaches both limits at the same time",
    ] {
        assert!(mixed.contains(said), "{said}: {mixed}");
    }
    let flags =
        ["--capacity", "4TiB", "--iops", "12k", "--read", "70", "--level", "filestore/basic-ssd", "--json"];
    let json: Value = serde_json::from_str(&size(&flags).1).unwrap();
    assert_eq!(json["options"][0]["carries_write_operations_per_second"], 25_000);
    // One direction, and a level with one limit for both.
    for (read, level) in [("100", "filestore/basic-ssd"), ("70", "anf/premium")] {
        let text = with(read, level);
        assert!(!text.contains("write IOPS  ") && !text.contains("apart"), "{text}");
    }
}

#[test]
fn latency_that_is_not_checked_is_marked_and_several_volumes_have_a_caveat() {
    let with = |more: &[&str]| size(&[&["--capacity", "40TiB", "--iops", "200k"][..], more].concat()).1;
    let split = with(&["--block", "8k", "--latency", "2ms", "--level", "filestore/enterprise"]);
    for said in [
        "EVIDENCE           LATENCY\n",
        "documented limits  not checked\n",
        "Latency:     2 ms, not checked: no page or measurement has a latency at this rate; measure it",
        "Data and load must be spread evenly over 6 volumes, with 6.67 TiB of data in each",
        "its limit does not rise when others are idle",
    ] {
        assert!(split.contains(said), "{said}: {split}");
    }
    let eda = with(&["--like", "eda", "--latency", "2ms", "--level", "anf/ultra", "--large"]);
    assert!(eda.contains("2 ms, published: the rates were published at a latency within it"), "{eda}");
    assert!(!eda.contains("must be spread evenly"), "{eda}");
    let no_target = with(&["--block", "8k", "--level", "anf/ultra"]);
    assert!(!no_target.contains("LATENCY"), "{no_target}");
}

/// Runs without a service.
fn size(args: &[&str]) -> (bool, String, String) {
    let output = plimsoll(None).arg("size").args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

#[test]
fn an_answer_needs_no_service_and_says_what_it_stands_on() {
    let flags = [
        "--capacity",
        "40TiB",
        "--iops",
        "120k",
        "--block",
        "8k",
        "--read",
        "70",
        "--clients",
        "6",
        "--latency",
        "2ms",
    ];
    let (found, text, _) = size(&flags);
    assert!(found && text.contains("1  anf/premium  ") && text.contains("Error band:"), "{text}");
    assert!(text.contains("Smallest first") && !text.contains("heapest"), "there are no prices: {text}");
    let rows = |text: &str| {
        text.lines().filter(|line| line.contains("  published") && line.contains(" TiB  ")).count()
    };
    let (_, all, _) = size(&[&flags[..], &["--all"]].concat());
    assert!(rows(&text) <= 3 && rows(&all) > 6, "{text}\n{all}");
    assert!(text.contains("WHY THE OTHERS COME AFTER THEM"), "{text}");
    let (_, text, _) = size(&[&["explain"], &flags[..]].concat());
    for line in [
        "937.5 MiB/s + 30 % headroom = 1,218.75 MiB/s",
        "capacity  40 TiB + 0 % growth = 40 TiB; + 20 % headroom = 48 TiB: volumes that change by 1 to 2 % a day",
        "48 TiB × 64 MiB/s per TiB = 3,072 MiB/s",
        "anf-regular-8k-rand-uncached, 1/T interpolated at 70 % reads",
        "75 calls in flight at 480 µs of 6 × 8 × 128",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let (_, json, _) = size(&[&flags[..], &["--json"]].concat());
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["options"][0]["pool"]["level"], "anf/premium");
    assert_eq!(json["format"], "plimsoll-size/1");
    assert_eq!(json["options"][0]["bottleneck"]["kind"], "capacity");
    assert_eq!(json["options"][0]["next"]["kind"], "envelope");
    assert!(!json.to_string().contains("null"), "{json}");
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("advice.html");
    assert!(size(&[&flags[..], &["--html", page.to_str().unwrap()]].concat()).0);
    assert!(std::fs::read_to_string(page).unwrap().contains("<svg"));
    // Nothing carries it: a failure, with what comes nearest.
    let (found, text, _) = size(&[
        "--capacity",
        "1TiB",
        "--iops",
        "600k",
        "--level",
        "anf/ultra",
        "--regular",
        "--volumes",
        "1",
    ]);
    assert!(!found && text.contains("No option carries this workload. The nearest options:"), "{text}");
}

/// The exit status of a question.
fn status(args: &[&str]) -> i32 {
    plimsoll(None).arg("size").args(args).output().unwrap().status.code().unwrap()
}

#[test]
fn workload_that_does_not_fit_and_bad_arguments_have_different_statuses() {
    let too_much =
        ["--capacity", "1TiB", "--iops", "600k", "--level", "anf/ultra", "--regular", "--volumes", "1"];
    assert_eq!(status(&too_much), 3);
    assert_eq!(status(&[&["explain"], &too_much[..]].concat()), 3);
    for wrong in [
        &["--iops", "5k"][..],
        &["--capacity", "1TiB", "--read", "0.7", "--iops", "5k"],
        &["--capacity", "1TiB", "--average", "0"],
        &["--capacity", "1TiB", "--like", "database"],
        &["--capacity", "1TiB", "--nonsense"],
    ] {
        assert_eq!(status(wrong), 2, "{wrong:?}");
    }
    assert_eq!(status(&["--capacity", "1TiB", "--from", "/does/not/exist"]), 1);
    assert_eq!(status(&["--capacity", "1TiB", "--iops", "5k"]), 0);
}

#[test]
fn clients_send_what_is_written_and_receive_what_is_read() {
    let asked = |more: &[&str]| {
        let flags = [
            "--capacity",
            "60TiB",
            "--throughput",
            "9GiB/s",
            "--block",
            "256k",
            "--headroom",
            "0",
            "--level",
            "anf/ultra",
            "--large",
            "--volumes",
            "1",
            "--clients",
            "4",
        ];
        let (_, text, _) = size(&[&flags[..], more].concat());
        text
    };
    // 9,216 MiB/s of reads bother nobody who may send 2,000 MiB/s; 5 % more than four of them send does.
    let reads = asked(&["--read", "100", "--machine", "E32s_v5"]);
    assert!(!reads.contains("NIC") && reads.contains("egress bounds only writes"), "{reads}");
    let writes = asked(&["--read", "0", "--egress", "2000MiB/s"]);
    assert!(writes.contains("NIC") && writes.contains("4 × 2,000 MiB/s"), "{writes}");
    let received = asked(&["--read", "100", "--ingress", "16Gbit/s"]);
    assert!(received.contains("NIC") && received.contains("read of 4 × "), "{received}");
    let (_, text, _) = size(&["--capacity", "1TiB", "--iops", "5k", "--machine", "D16s_v5"]);
    assert!(text.contains("do not count without --clients"), "{text}");
}

#[test]
fn a_kind_of_workload_has_a_mix_that_is_shown_and_can_be_overridden() {
    let (found, text, _) =
        size(&["--capacity", "40TiB", "--like", "media-rendering", "--throughput", "1GiB/s"]);
    assert!(found && text.contains("sequential operations of 256 KiB, 75 % reads are assumed"), "{text}");
    assert!(text.contains("[ANF regular volumes (Microsoft)]"), "{text}");
    assert!(text.contains("of 256 KiB sequential, 75 % reads: 1,024 MiB/s"), "{text}");
    let other =
        ["--capacity", "40TiB", "--like", "database", "--iops", "20k", "--block", "16k", "--read", "50"];
    let (_, text, _) = size(&other);
    assert!(text.contains("20,000 IOPS of 16 KiB random, 50 % reads"), "{text}");
    let eda =
        ["--capacity", "60TiB", "--like", "eda", "--iops", "400k", "--provider", "anf", "--clients", "10"];
    let (_, text, _) = size(&eda);
    assert!(
        text.contains("vers=3,hard,tcp,rsize=262144,wsize=262144,noatime,nocto,actimeo=600,nconnect=8"),
        "{text}"
    );
    assert!(text.contains("[ANF for EDA (Microsoft)]") && text.contains("10 × D16s_v5"), "{text}");
}

#[test]
fn metadata_asks_for_a_large_volume() {
    let (_, text, _) =
        size(&["--capacity", "60TiB", "--metadata", "50k", "--provider", "anf", "--volumes", "1"]);
    assert!(text.contains("50,000 metadata operations a second"), "{text}");
    assert!(text.contains("1  anf/") && text.contains("large volume for metadata"), "{text}");
    assert!(text.contains("[ANF large volumes (Microsoft)]"), "{text}");
}

#[test]
fn file_name_that_ends_in_another_form_is_refused_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let flags = ["--capacity", "1TiB", "--throughput", "50MiB/s", "--level", "anf/premium"];
    for (more, name, allowed) in [
        (&["-o"][..], "a.svg", ".txt or no ending for text, .json with --json, --html FILE for a page"),
        (&["-o"], "a.csv", "allowed: .txt"),
        (&["-o"], "a.json", ".json with --json"),
        (&["--json", "-o"], "a.csv", ".json with --json"),
        (&["--html"], "a.svg", "a name that ends in .html"),
        (&["explain", "-o"], "a.html", "allowed: .txt"),
        (&["scenario", "-o"], "a.csv", "allowed: .toml"),
        (&["apply", "--name", "a", "--allow", "10.1.0.0/16", "-o"], "a.csv", "allowed: .txt"),
    ] {
        let verb = if more[0].starts_with('-') { 0 } else { 1 };
        let path = file(name);
        let (found, text, error) =
            size(&[&more[..verb], &flags[..], &more[verb..], &[path.as_str()][..]].concat());
        assert!(!found && text.is_empty() && error.contains(allowed), "{more:?}: {error}");
    }
    let path = file("prices.csv");
    assert!(size(&["prices", "--example", "-o", &path]).2.contains("allowed: .toml"));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn output_with_a_file_name_is_written_to_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let read = |name: &str| std::fs::read_to_string(file(name)).unwrap();
    let flags = ["--capacity", "20TiB", "--level", "filestore/basic-hdd", "--throughput", "50MiB/s"];
    let with = |more: &[&str]| {
        let (found, text, error) = size(&[more, &flags[..]].concat());
        assert!(found && text.is_empty(), "{more:?}: {text}{error}");
    };
    with(&["--output", &file("a.txt")]);
    let text = read("a.txt");
    assert!(
        text.contains("Option 1: filestore/basic-hdd") && text.contains("n1-standard-8 or larger"),
        "{text}"
    );
    assert!(text.contains("machine type"), "{text}");
    with(&["--json", "-o", &file("a.json")]);
    assert_eq!(serde_json::from_str::<Value>(&read("a.json")).unwrap()["format"], "plimsoll-size/1");
    let page = file("a.html");
    assert!(size(&[&["--html", &page][..], &flags[..]].concat()).0);
    assert!(read("a.html").starts_with("<!doctype html>"));
    with(&["explain", "-o", &file("b.txt")]);
    let explained = read("b.txt");
    for meaning in ["timeo=600 ", "600 are 60 s", "not sync", "rsize=1048576 ", "privileged port"] {
        assert!(explained.contains(meaning), "{meaning}: {explained}");
    }
    assert!(!explained.contains("nconnect="), "{explained}");
    with(&["explain", "--json", "-o", &file("b.json")]);
    let one: Value = serde_json::from_str(&read("b.json")).unwrap();
    assert_eq!(one["mount_options"][1]["what"], "hard", "{one}");
    with(&["scenario", "-o", &file("c.toml")]);
    assert!(read("c.toml").contains("[[series]]"));
}

#[test]
fn invalid_workload_is_refused_with_allowed_values() {
    for (flags, why) in [
        (&["--iops", "5k"][..], "--capacity SIZE"),
        (&["--capacity", "1TiB", "--block", "8k"], "--iops or --throughput"),
        (&["--capacity", "1tb"], "1.5TiB, 100G or 60TB"),
        (&["--capacity", "40", "--iops", "120"], "a size needs a unit, like 40GiB"),
        (&["--capacity", "1TiB", "--iops", "5k", "--throughput", "1GiB/s", "--block", "8k"], "leave one out"),
        (&["--capacity", "1TiB", "--read", "170"], "0 to 100"),
        (&["--capacity", "1TiB", "--level", "anf/gold"], "anf/standard"),
        (&["--capacity", "1TiB", "--average", "0"], "1 to 100"),
        (&["--capacity", "1TiB", "--volumes", "0"], "1 to 100"),
        (&["--capacity", "1TiB", "--level", "plimsoll/custom"], "plimsoll bench run"),
        (&["--capacity", "1TiB", "--provider", "anf", "--option", "99"], "1 to 8"),
        (&["--capacity", "1TiB", "--from", "/does/not/exist"], "/does/not/exist"),
        (&["--capacity", "1TiB", "--measured", "/does/not/exist"], "/does/not/exist"),
    ] {
        let (found, text, error) = size(flags);
        assert!(!found && error.contains(why), "{flags:?}: {text}{error}");
    }
}
