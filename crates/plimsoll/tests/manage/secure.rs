//! Access to the API: addresses, tokens, certificates.

use crate::rig::{Service, plimsoll};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// The reply to a plain GET without a token.
fn get(service: &Service, path: &str) -> String {
    let url = service.announcement()["api"].as_str().unwrap().to_owned();
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

#[test]
fn health_is_for_everybody_and_the_rest_is_not() {
    let service = Service::start();
    assert!(get(&service, "/healthz").starts_with("HTTP/1.1 200"));
    assert!(get(&service, "/readyz").starts_with("HTTP/1.1 200"));
    assert!(get(&service, "/v1/pools").starts_with("HTTP/1.1 401"));
    assert!(get(&service, "/metrics").starts_with("HTTP/1.1 401"));
    let mode = fs::metadata(service.data().join("admin.token")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
}

#[test]
fn api_beyond_loopback_needs_a_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--api", "0.0.0.0:0"];
    let output = plimsoll(Some(dir.path())).args(serve).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("without a certificate"), "{said}");
    let config = dir.path().join("config.toml");
    fs::write(&config, "[api]\nlisten = \"0.0.0.0:0\"\ninsecure = true\nopen_metrics = true\n").unwrap();
    let service = Service::start_with(&["--config", config.to_str().unwrap()]);
    assert!(get(&service, "/metrics").starts_with("HTTP/1.1 200"));
    assert!(service.says(&["pool", "list"]).contains("No pools"));
}

#[test]
fn a_certificate_is_checked() {
    let dir = tempfile::tempdir().unwrap();
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    fs::write(&certificate, own.cert.pem()).unwrap();
    fs::write(&key, own.signing_key.serialize_pem()).unwrap();
    let set_mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let config = dir.path().join("config.toml");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let text = format!(
        "[api]\nlisten = \"127.0.0.1:{port}\"\nurl = \"https://localhost:{port}\"\ncertificate = {certificate:?}\nkey = {key:?}\n"
    );
    fs::write(&config, text).unwrap();
    for mode in [0o644, 0o640] {
        set_mode(&key, mode);
        let data = tempfile::tempdir().unwrap();
        let serve = ["serve", "--listen", "127.0.0.1:0", "--config", config.to_str().unwrap()];
        let mut child = plimsoll(Some(data.path())).args(serve).stderr(Stdio::piped()).spawn().unwrap();
        let ended = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            child.try_wait().unwrap().is_some()
        });
        // It would serve for ever.
        _ = child.kill();
        let said = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
        assert!(ended && said.contains("chmod 600") && said.contains("key.pem"), "{mode:o}: {said}");
    }
    set_mode(&key, 0o600);
    let service = Service::start_with(&["--config", config.to_str().unwrap()]);
    let token = dir.path().join("token");
    fs::copy(service.data().join("admin.token"), &token).unwrap();
    set_mode(&token, 0o644);
    let url = format!("https://localhost:{port}");
    let ca = certificate.to_str().unwrap();
    let list = ["pool", "list", "--url", &url, "--ca", ca, "--token-file", token.to_str().unwrap()];
    let said = service.refuses(&list);
    assert!(said.contains("chmod 600") && said.lines().count() == 1, "{said}");
    set_mode(&token, 0o600);
    service.says(&list);
    assert_eq!(service.announcement()["api"], url);
    let said = service.refuses(&["pool", "list", "--url", &url]);
    assert!(said.contains("certificate"), "{said}");
    assert!(service.says(&["pool", "list", "--url", &url, "--ca", ca]).contains("No pools"));
    assert!(service.says(&["pool", "list"]).contains("No pools"), "a local command needs no certificate");
    let with_token =
        |url: &str| service.refuses(&["pool", "list", "--url", url, "--token-file", token.to_str().unwrap()]);
    let plain = with_token(&url.replace("https", "http"));
    assert!(plain.contains("an API with a certificate needs --url https://"), "{plain}");
    let unknown = with_token("https://host.invalid:2050");
    assert!(unknown.contains("the host is not known") && unknown.contains("check --url"), "{unknown}");
    let missing = service.refuses(&["pool", "show", "nope"]);
    assert!(missing.contains("there is no pool nope; \"plimsoll pool list\" shows all"), "{missing}");
}

/// A public name that this host does not resolve, and a data directory that only the configuration names.
#[test]
fn local_commands_find_the_service_by_its_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let (config, data) = (dir.path().join("plimsoll.toml"), dir.path().join("data"));
    let text = format!(
        "data = {data:?}\n[nfs]\nlisten = \"127.0.0.1:0\"\n[api]\nlisten = \"127.0.0.1:0\"\nurl = \"https://storage.invalid\"\n"
    );
    fs::write(&config, text).unwrap();
    let run = |args: &[&str]| {
        plimsoll(None).arg("--config").arg(&config).args(args).output().map(|ran| {
            (ran.status.success(), String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned())
        })
    };
    let (done, said) = run(&["pool", "list"]).unwrap();
    assert!(!done && said.contains("no service runs in the data directory"), "{said}");
    let mut serve = plimsoll(None).arg("serve").env("PLIMSOLL_CONFIG", &config).spawn().unwrap();
    let is_up = || data.join("service.json").exists();
    while !is_up() && serve.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let listed = run(&["pool", "list"]);
    let socket = data.join("api.sock");
    let mode = fs::metadata(&socket).map(|metadata| metadata.permissions().mode() & 0o777);
    rustix::process::kill_process(rustix::process::Pid::from_child(&serve), rustix::process::Signal::TERM)
        .unwrap();
    serve.wait().unwrap();
    let (done, said) = listed.unwrap();
    assert!(done && said.contains("No pools"), "{said}");
    assert_eq!(mode.unwrap(), 0o600);
    assert!(!socket.exists() && !is_up(), "an orderly end removes both");
}

/// Wrong tokens slow down their network; local commands are a network of their own.
#[test]
fn wrong_tokens_over_the_network_do_not_keep_local_commands_out() {
    let service = Service::start();
    let url = service.announcement()["api"].as_str().unwrap().to_owned();
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    for _ in 0..40 {
        write!(stream, "GET /v1/pools HTTP/1.1\r\nhost: x\r\nauthorization: Bearer plimsoll_wrong\r\n\r\n")
            .unwrap();
        assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
    }
    let over_network = service.refuses(&["pool", "list", "--url", &url]);
    assert!(over_network.contains("wrong tokens"), "{over_network}");
    assert!(service.says(&["pool", "list"]).contains("No pools"));
}

/// The configuration of another service on this machine.
#[test]
fn named_url_needs_no_configuration() {
    let service = Service::start();
    let url = service.announcement()["api"].as_str().unwrap().to_owned();
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("broken.toml");
    fs::write(&config, "[").unwrap();
    let token = service.data().join("admin.token");
    let list = ["pool", "list", "--config", config.to_str().unwrap()];
    let named = ["--url", &url, "--token-file", token.to_str().unwrap()];
    let ran = plimsoll(None).args(list).args(named).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let said = plimsoll(None).args(list).output().unwrap();
    assert!(!said.status.success() && String::from_utf8_lossy(&said.stderr).contains("broken.toml"));
}

#[test]
fn invalid_configuration_is_refused_with_reason() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config.toml");
    for (text, complaint) in [
        ("[api]\ncertificate = \"cert.pem\"\n", "set \"key\" too"),
        ("[api]\ncertificate = \"/nonexistent\"\nkey = \"/nonexistent\"\n", "cannot read /nonexistent"),
        ("[api]\nlissen = \"127.0.0.1:1\"\n", "api.lissen is unknown; allowed: listen, certificate"),
    ] {
        fs::write(&config, text).unwrap();
        let output = plimsoll(Some(dir.path())).args(["serve", "--config"]).arg(&config).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains(complaint), "{text}: {said}");
    }
}

/// Runs `plimsoll` without a service; returns whether it succeeded, and its output.
fn run(arguments: &[&str]) -> (bool, String) {
    let output = plimsoll(None).args(arguments).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

/// A service whose API has this certificate.
fn service_with(certificate: &Path, key: &Path) -> (Service, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config.toml");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let text = format!(
        "[api]\nlisten = \"127.0.0.1:{port}\"\nurl = \"https://localhost:{port}\"\ncertificate = {certificate:?}\nkey = {key:?}\n"
    );
    fs::write(&config, text).unwrap();
    (Service::start_with(&["--config", config.to_str().unwrap()]), dir)
}

#[test]
fn certificates_of_tls_init_secure_the_api_and_nfs() {
    let dir = tempfile::tempdir().unwrap();
    let tls = dir.path().join("tls");
    let path = |name: &str| tls.join(name);
    let text = |name: &str| path(name).to_str().unwrap().to_owned();
    let at = ["--dir", tls.to_str().unwrap()];
    let (done, said) = run(&[&["tls", "init", "localhost", "127.0.0.1"], &at[..]].concat());
    assert!(
        done && said.contains("825 days") && said.contains("[nfs.tls]") && said.contains("--ca "),
        "{said}"
    );
    for (name, mode) in [("ca.pem", 0o644), ("ca.key", 0o600), ("server.pem", 0o644), ("server.key", 0o600)] {
        assert_eq!(fs::metadata(path(name)).unwrap().permissions().mode() & 0o777, mode, "{name}");
    }
    let before = fs::read(path("server.pem")).unwrap();
    let (done, said) = run(&[&["tls", "init", "localhost"], &at[..]].concat());
    assert!(!done && said.contains("nothing was created") && said.contains("--renew"), "{said}");
    assert_eq!(fs::read(path("server.pem")).unwrap(), before);
    let (done, said) = run(&[&["tls", "init", "--renew"], &at[..]].concat());
    assert!(done && said.contains("certificate for localhost, 127.0.0.1"), "{said}");
    assert_ne!(fs::read(path("server.pem")).unwrap(), before);
    let (done, said) = run(&[&["tls", "client", "web1"], &at[..]].concat());
    assert!(done && path("client.pem").exists() && path("client.key").exists(), "{said}");
    let (done, said) = run(&[&["tls", "client", "web2"], &at[..]].concat());
    assert!(!done && said.contains("--output"), "{said}");

    let (service, _config) = service_with(&path("server.pem"), &path("server.key"));
    let ca = text("ca.pem");
    assert!(service.says(&["pool", "list", "--ca", &ca]).contains("No pools"));
    let by_address = service.announcement()["api"].as_str().unwrap().replace("localhost", "127.0.0.1");
    let token = service.data().join("admin.token");
    let token = token.to_str().unwrap();
    service.says(&["pool", "list", "--ca", &ca, "--url", &by_address, "--token-file", token]);
    let (done, said) = run(&[&["tls", "init", "--renew", "files.example.org"], &at[..]].concat());
    assert!(done, "{said}");
    let (other, _config) = service_with(&path("server.pem"), &path("server.key"));
    let url = other.announcement()["api"].as_str().unwrap().to_owned();
    let said = other.refuses(&["pool", "list", "--url", &url, "--ca", &ca]);
    assert!(said.contains("it is for files.example.org") && said.contains("--renew NAME"), "{said}");
    let options =
        ["--tls-cert", &text("server.pem"), "--tls-key", &text("server.key"), "--tls-client-ca", &ca];
    assert_eq!(Service::start_with(&options).json(&["pool", "list"])["items"].as_array().unwrap().len(), 0);
}

#[test]
fn certificate_that_no_server_can_have_is_refused_in_plain_words() {
    let dir = tempfile::tempdir().unwrap();
    let (certificate, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    // As `openssl req -x509` makes it.
    let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let pair = rcgen::KeyPair::generate().unwrap();
    fs::write(&certificate, params.self_signed(&pair).unwrap().pem()).unwrap();
    fs::write(&key, pair.serialize_pem()).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let (service, _config) = service_with(&certificate, &key);
    let url = service.announcement()["api"].as_str().unwrap().to_owned();
    let list = |ca: &Path| service.refuses(&["pool", "list", "--url", &url, "--ca", ca.to_str().unwrap()]);
    let said = list(&certificate);
    assert!(said.contains("the certificate of a CA") && said.contains("plimsoll tls init"), "{said}");
    assert!(!said.contains("Other(") && !said.contains("plimsoll serve"), "{said}");
    let said = list(&key);
    assert!(said.contains("has no certificate in PEM") && !said.contains("plimsoll serve"), "{said}");
}
