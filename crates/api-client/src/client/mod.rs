//! A client that sends one request at a time, on the calling thread.

mod backups;
mod certificate;
mod peers;
mod policies;
mod quotas;
mod replications;
mod snapshots;
mod socket;
mod transport;
mod users;

pub use certificate::CertificateFault;
pub use transport::{Error, Result, Target};

use crate::model::{
    ConnectedClient, Level, LevelLimits, LevelQuery, MountTargets, NewPool, NewToken, NewVolume, Nfs,
    Operation, Page, Pool, PoolPatch, Rules, Secret, Smb, Stats, Token, Version, Volume, VolumePatch,
    Warning,
};
use crate::path::encoded;
use crate::samples::{SampleError, Samples};
use crate::{JSON, MERGE_PATCH};
use serde::Serialize;
use serde::de::DeserializeOwned;
use transport::{Request, Transport};

pub struct Client {
    transport: Transport,
}

/// A value and its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tagged<T> {
    pub value: T,
    /// For [`ChangeOptions::at`].
    pub etag: String,
}

/// The result of a creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created<T> {
    pub value: T,
    /// Whether the request made it; otherwise it existed already, as asked for.
    pub is_new: bool,
}

/// The conditions of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeOptions {
    etag: Option<String>,
    force: bool,
}

impl ChangeOptions {
    /// Any version, without force.
    pub fn none() -> Self {
        Self::default()
    }

    /// Limits the change to the version with this tag.
    #[must_use]
    pub fn at(self, etag: impl Into<String>) -> Self {
        Self { etag: Some(etag.into()), ..self }
    }

    /// With force, where a problem is forceable.
    #[must_use]
    pub fn forced(self, force: bool) -> Self {
        Self { force, ..self }
    }

    fn apply(&self, request: Request) -> Request {
        let request = if self.force { request.query("force", "true") } else { request };
        match &self.etag {
            Some(etag) => request.header("if-match", etag),
            None => request,
        }
    }
}

/// The path of a thing by its name.
fn path(collection: &str, name: &str) -> String {
    format!("/v1/{collection}/{}", encoded(name))
}

impl Client {
    /// A client of the service at `target`. Nothing is sent yet.
    pub fn new(target: &Target) -> Result<Self> {
        Ok(Self { transport: Transport::new(target)? })
    }

    /// All pools, by name.
    pub fn pools(&self) -> Result<Vec<Pool>> {
        self.all(&Request::get("/v1/pools"))
    }

    /// A pool.
    pub fn pool(&self, name: &str) -> Result<Tagged<Pool>> {
        self.tagged(Request::get(path("pools", name)))
    }

    /// Makes a pool.
    pub fn create_pool(&self, new: &NewPool) -> Result<Created<Pool>> {
        self.made(Request::post("/v1/pools"), new)
    }

    /// Changes a pool.
    pub fn change_pool(
        &self,
        options: &ChangeOptions,
        name: &str,
        patch: &PoolPatch,
    ) -> Result<Tagged<Pool>> {
        let request = options.apply(Request::patch(path("pools", name)));
        self.tagged(request.body(MERGE_PATCH, &to_json(patch)?))
    }

    /// Removes a pool without volumes.
    pub fn delete_pool(&self, options: &ChangeOptions, name: &str) -> Result<Operation> {
        self.value(&options.apply(Request::delete(path("pools", name))))
    }

    /// All volumes, by name.
    pub fn volumes(&self) -> Result<Vec<Volume>> {
        self.all(&Request::get("/v1/volumes"))
    }

    /// A volume.
    pub fn volume(&self, name: &str) -> Result<Tagged<Volume>> {
        self.tagged(Request::get(path("volumes", name)))
    }

    /// Makes a volume and has it served.
    pub fn create_volume(&self, options: &ChangeOptions, new: &NewVolume) -> Result<Created<Volume>> {
        self.made(options.apply(Request::post("/v1/volumes")), new)
    }

    /// Changes a volume.
    pub fn change_volume(
        &self,
        options: &ChangeOptions,
        name: &str,
        patch: &VolumePatch,
    ) -> Result<Tagged<Volume>> {
        let request = options.apply(Request::patch(path("volumes", name)));
        self.tagged(request.body(MERGE_PATCH, &to_json(patch)?))
    }

    /// Removes a volume and all its files.
    pub fn delete_volume(&self, options: &ChangeOptions, name: &str) -> Result<Operation> {
        self.value(&options.apply(Request::delete(path("volumes", name))))
    }

    /// Reads traffic, contents and limits of a volume.
    pub fn stats(&self, volume: &str) -> Result<Stats> {
        self.value(&Request::get(path("volumes", volume) + "/stats"))
    }

    /// Mount targets of a volume.
    pub fn mount_targets(&self, volume: &str) -> Result<MountTargets> {
        self.value(&Request::get(path("volumes", volume) + "/mount-targets"))
    }

    /// Reads the state of SMB.
    pub fn smb(&self) -> Result<Smb> {
        self.value(&Request::get("/v1/smb"))
    }

    /// The export rules of a volume.
    pub fn rules(&self, volume: &str) -> Result<Tagged<Rules>> {
        self.tagged(Request::get(path("volumes", volume) + "/rules"))
    }

    /// Replaces the export rules of a volume.
    pub fn replace_rules(
        &self,
        options: &ChangeOptions,
        volume: &str,
        rules: &Rules,
    ) -> Result<Tagged<Rules>> {
        let request = options.apply(Request::put(path("volumes", volume) + "/rules"));
        self.tagged(request.body(JSON, &to_json(rules)?))
    }

    /// All service levels.
    pub fn levels(&self) -> Result<Vec<Level>> {
        self.all(&Request::get("/v1/levels"))
    }

    /// A service level by its name, as in `anf/premium`, and with sizes what they may do.
    pub fn level(&self, name: &str, asked: &LevelQuery) -> Result<LevelLimits> {
        let name = name.split('/').map(encoded).collect::<Vec<_>>().join("/");
        let mut request = Request::get(format!("/v1/levels/{name}"));
        let asked = serde_json::to_value(asked).map_err(|error| Error::UnexpectedReply(error.to_string()))?;
        for (name, value) in asked.as_object().into_iter().flatten() {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            request = request.query(name, &text);
        }
        self.value(&request)
    }

    /// Connected clients.
    pub fn clients(&self) -> Result<Vec<ConnectedClient>> {
        self.all(&Request::get("/v1/clients"))
    }

    /// Reads the state of NFS.
    pub fn nfs(&self) -> Result<Nfs> {
        self.value(&Request::get("/v1/nfs"))
    }

    /// The last changes, at most so many, the newest first.
    pub fn operations(&self, most: usize) -> Result<Vec<Operation>> {
        self.some(&Request::get("/v1/operations"), most)
    }

    /// A change.
    pub fn operation(&self, id: u64) -> Result<Operation> {
        self.value(&Request::get(format!("/v1/operations/{id}")))
    }

    /// All tokens, by name.
    pub fn tokens(&self) -> Result<Vec<Token>> {
        self.all(&Request::get("/v1/tokens"))
    }

    /// Makes a token.
    pub fn create_token(&self, new: &NewToken) -> Result<Secret> {
        self.made(Request::post("/v1/tokens"), new).map(|made: Created<Secret>| made.value)
    }

    /// Revokes a token.
    pub fn revoke_token(&self, name: &str) -> Result<Operation> {
        self.value(&Request::delete(path("tokens", name)))
    }

    /// Warnings for the operator.
    pub fn warnings(&self) -> Result<Vec<Warning>> {
        self.all(&Request::get("/v1/warnings"))
    }

    /// The running version.
    pub fn version(&self) -> Result<Version> {
        self.value(&Request::get("/v1/version"))
    }

    /// Whether clients can mount.
    pub fn is_ready(&self) -> bool {
        self.readiness().is_ok()
    }

    /// Returns the progress of the counts that volumes need after a crash, in words, or `None` if all are counted. Fails if
    /// clients cannot mount.
    pub fn readiness(&self) -> Result<Option<String>> {
        let reply = self.transport.send(&Request::get("/readyz"))?;
        let text =
            String::from_utf8(reply.body).map_err(|error| Error::UnexpectedReply(error.to_string()))?;
        Ok(text.lines().find_map(|line| line.strip_prefix("counting: ")).map(str::to_owned))
    }

    /// Reads the metrics.
    pub fn metrics(&self) -> Result<Samples> {
        let reply = self.transport.send(&Request::get("/metrics"))?;
        let text =
            String::from_utf8(reply.body).map_err(|error| Error::UnexpectedReply(error.to_string()))?;
        text.parse().map_err(|wrong: SampleError| Error::UnexpectedReply(wrong.to_string()))
    }

    fn value<T: DeserializeOwned>(&self, request: &Request) -> Result<T> {
        self.transport.send(request)?.value()
    }

    fn tagged<T: DeserializeOwned>(&self, request: Request) -> Result<Tagged<T>> {
        let reply = self.transport.send(&request)?;
        let etag =
            reply.etag.clone().ok_or_else(|| Error::UnexpectedReply("a reply without ETag".to_owned()))?;
        Ok(Tagged { value: reply.value()?, etag })
    }

    fn made<T: DeserializeOwned>(&self, request: Request, new: &impl Serialize) -> Result<Created<T>> {
        let reply = self.transport.send(&request.body(JSON, &to_json(new)?))?;
        Ok(Created { is_new: reply.status == 201, value: reply.value()? })
    }

    fn all<T: DeserializeOwned>(&self, request: &Request) -> Result<Vec<T>> {
        self.some(request, usize::MAX)
    }

    fn some<T: DeserializeOwned>(&self, request: &Request, most: usize) -> Result<Vec<T>> {
        let mut all = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let limit = most.saturating_sub(all.len()).clamp(1, crate::model::PAGE_MAX as usize);
            let mut part = request.clone().query("limit", &limit.to_string());
            if let Some(token) = &token {
                part = part.query("page_token", token);
            }
            let page: Page<T> = self.value(&part)?;
            all.extend(page.items);
            token = page.next_page_token;
            if token.is_none() || all.len() >= most {
                return Ok(all);
            }
        }
    }
}

fn to_json(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| Error::UnexpectedReply(error.to_string()))
}
