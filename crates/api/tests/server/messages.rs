//! Messages of refusals: plain English, without words of the implementation.

use crate::rig::Rig;
use api_client::model::{NewPool, NewVolume, Problem, VolumePatch};
use api_client::{ChangeOptions, Error};
use envelope::Level;

/// Sends a request; returns the `detail` of its refusal.
fn detail(rig: &Rig, request: &str, content_type: &str, body: &str) -> String {
    let head = format!("{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{content_type}");
    let head = format!("{head}authorization: Bearer {}\r\ncontent-length: {}\r\n\r\n", rig.token, body.len());
    let reply = crate::raw::ask(rig, head + body);
    let problem: Problem = serde_json::from_str(reply.split_once("\r\n\r\n").unwrap().1).unwrap();
    problem.detail
}

#[test]
fn refusals_of_requests_name_place_and_allowed_values() {
    const JSON: &str = "content-type: application/json\r\n";
    let rig = Rig::start();
    for (request, content_type, body, expected) in [
        (
            "POST /v1/pools",
            JSON,
            r#"{"name": "p", "level": "anf/premium", "size_bytes": "4TiB"}"#,
            r#"/size_bytes is "4TiB"; allowed: a whole number of 0 or more"#,
        ),
        ("POST /v1/pools?force=true", JSON, "{}", "the parameter force is unknown; allowed: none"),
        (
            "GET /v1/pools?limit=x",
            "",
            "",
            r#"the parameter limit is "x"; allowed: a whole number from 1 to 1000"#,
        ),
        ("GET /v1/pools?limit=0", "", "", "the parameter limit is 0; allowed: a whole number from 1 to 1000"),
        (
            "GET /v1/pools?page_token=%00zz",
            "",
            "",
            "the parameter page_token is not from this list; allowed: the next_page_token of the previous page",
        ),
        ("GET /v1/pools?label=a", "", "", "the parameter label is unknown; allowed: limit, page_token"),
        ("POST /v1/pools", "", "{}", "the header Content-Type is missing; allowed: application/json"),
        (
            "POST /v1/pools",
            "content-type: text/plain\r\n",
            "{}",
            r#"the header Content-Type is "text/plain"; allowed: application/json"#,
        ),
        ("POST /v1/pools", JSON, "", "the body is empty"),
        (
            "POST /v1/pools",
            JSON,
            &" ".repeat(1_048_577),
            "the body is too large; allowed: at most 1048576 bytes",
        ),
        ("PUT /v1/pools", JSON, "{}", "the path does not take PUT; allowed: GET, POST, HEAD"),
    ] {
        assert_eq!(detail(&rig, request, content_type, body), expected, "{request}");
    }
}

#[test]
fn stale_change_names_both_versions() {
    let rig = Rig::start();
    let client = rig.client();
    client.create_pool(&NewPool::new("p", Level::GcnvFlex, 2 << 40)).unwrap();
    client.create_volume(&ChangeOptions::none(), &NewVolume::new("v", "p", 1 << 40)).unwrap();
    let stale = ChangeOptions::none().at("\"7-1\"");
    let refused = client.change_volume(&stale, "v", &VolumePatch::default());
    let Err(Error::Refused(problem)) = refused else { panic!("{refused:?}") };
    let current = client.volume("v").unwrap().value.version;
    let expected =
        format!("volume v has changed since version \"7-1\" (it is now at \"{current}\"): read it again");
    assert_eq!(problem.detail, expected);
    let version = problem.version.unwrap();
    assert_eq!((version.kind.as_str(), version.name.as_str(), version.current), ("volume", "v", current));
}

#[test]
fn sizes_in_refusals_are_for_people() {
    let rig = Rig::start();
    let client = rig.client();
    client.create_pool(&NewPool::new("p", Level::AnfPremium, 4 << 40)).unwrap();
    let new = NewVolume::new("v", "p", 9_199_023_255_552);
    let Err(Error::Refused(problem)) = client.create_volume(&ChangeOptions::none(), &new) else { panic!() };
    assert!(
        problem.detail.contains("a volume of 8.37 TiB (9199023255552 bytes) in a pool of 4 TiB"),
        "{problem}"
    );
}

#[test]
fn reserves_and_policies_that_are_none_are_refused_with_place_and_reason() {
    const PATCH: &str = "content-type: application/json\r\n";
    let rig = Rig::start();
    let client = rig.client();
    client.create_pool(&NewPool::new("p", Level::Unlimited, 4 << 40)).unwrap();
    client.create_volume(&ChangeOptions::none(), &NewVolume::new("v", "p", 1 << 40)).unwrap();
    for (member, expected) in [
        (r#""snap_reserve":-1"#, "snap_reserve"),
        (r#""snap_reserve":256"#, "snap_reserve"),
        (r#""snap_reserve":1.5"#, "snap_reserve"),
        (r#""snap_reserve":"10""#, "snap_reserve"),
        (r#""snap_reserve":null"#, "snap_reserve"),
        (r#""snap_reserve":91"#, "allowed: 0 to 90 %"),
        (r#""policy":"""#, "policy"),
        (r#""policy":"../x""#, "policy"),
        (r#""policy":7"#, "policy"),
    ] {
        let said = detail(&rig, "PATCH /v1/volumes/v", PATCH, &format!("{{{member}}}"));
        assert!(said.contains(expected), "{member}: {said}");
        let new = format!(r#"{{"name":"w","pool":"p","size_bytes":1048576,{member}}}"#);
        let said = detail(&rig, "POST /v1/volumes", "content-type: application/json\r\n", &new);
        assert!(said.contains(expected), "{new}: {said}");
    }
    assert_eq!(client.volumes().unwrap().len(), 1);
    assert_eq!(client.volume("v").unwrap().value.snap_reserve, 0);
}
