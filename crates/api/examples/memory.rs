//! Serves the API over volumes in memory, for tools that test it: prints its address and its token, and ends with its standard
//! input.

#[path = "../tests/server/rig.rs"]
#[allow(dead_code, reason = "tests use more of it")]
mod rig;

use std::io::Write;

fn main() {
    let rig = rig::Rig::start();
    let client = rig.client();
    let pool = api_client::model::NewPool::new("standing", envelope::Level::Unlimited, 1 << 44);
    client.create_pool(&pool).expect("a pool");
    let volume = api_client::model::NewVolume::new("standing", "standing", 1 << 40);
    client.create_volume(&api_client::ChangeOptions::none(), &volume).expect("a volume");
    let snapshot = r#"{"name":"standing"}"#;
    let snapshot = serde_json::from_str(snapshot).expect("the body of a snapshot");
    client.create_snapshot("standing", &snapshot).expect("a snapshot");
    let policy = r#"{"name":"standing","daily":{"keep":7}}"#;
    client.create_policy(&serde_json::from_str(policy).expect("the body of a policy")).expect("a policy");
    client.create_user(&api_client::model::NewUser::new("standing", 1000)).expect("a user");
    let group = api_client::model::NewGroup { name: "standing".to_owned(), gid: 1000, members: None };
    client.create_group(&group).expect("a group");
    let mut output = std::io::stdout();
    writeln!(output, "{} {}", rig.server.url(), rig.token).expect("somebody who reads");
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).expect("an end");
}
