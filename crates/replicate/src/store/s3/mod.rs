//! Objects in a bucket of an S3-compatible store. Nothing outside this module knows HTTP.

mod http;
mod retention;

use super::{ObjectSink, ObjectStore, Pace, wait};
use http::Agent;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path;
use object_store::{
    BackoffConfig, Error, ObjectStore as _, ObjectStoreExt, PutMode, PutOptions, PutPayload, RetryConfig,
};
use std::io::{self, ErrorKind};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use vfs::Time;

/// Larger objects are sent in parts of this size.
const PART_BYTES: usize = 8 << 20;
/// Retries of one request, and the time within which they begin.
const RETRIES_MAX: usize = 6;
const RETRIES_TIME: Duration = Duration::from_secs(120);
const BACKOFF: Duration = Duration::from_millis(200);
const BACKOFF_MAX: Duration = Duration::from_secs(20);

#[derive(Clone, Debug)]
pub struct S3Options {
    /// Such as `https://s3.example.com:9000`, without the bucket.
    pub endpoint: String,
    pub bucket: String,
    /// Text before the name of each object, such as `backups/site-1`; may be empty.
    pub prefix: String,
    pub region: String,
    pub access_key: String,
    pub secret_key: String,
    pub session_token: Option<String>,
    /// Certificates in PEM of the issuers to trust, instead of the well-known ones.
    pub issuers: Option<Vec<u8>>,
}

/// A bucket. Requests have paths with the bucket's name ("path-style").
pub struct S3 {
    options: S3Options,
    store: AmazonS3,
    agent: Agent,
    /// Only for pauses between retries: requests block the thread that makes them.
    runtime: Runtime,
}

impl S3 {
    /// Prepares requests to a bucket, and sends none.
    pub fn new(options: S3Options) -> io::Result<Self> {
        let agent = Agent::new(options.issuers.as_deref())?;
        let backoff = BackoffConfig { init_backoff: BACKOFF, max_backoff: BACKOFF_MAX, base: 2.0 };
        let retry = RetryConfig { backoff, max_retries: RETRIES_MAX, retry_timeout: RETRIES_TIME };
        let mut builder = AmazonS3Builder::new()
            .with_endpoint(&options.endpoint)
            .with_bucket_name(&options.bucket)
            .with_region(&options.region)
            .with_access_key_id(&options.access_key)
            .with_secret_access_key(&options.secret_key)
            .with_virtual_hosted_style_request(false)
            .with_allow_http(options.endpoint.starts_with("http:"))
            // Not every store has it.
            .with_disable_bulk_delete(true)
            .with_retry(retry)
            .with_http_connector(agent.clone());
        if let Some(token) = &options.session_token {
            builder = builder.with_token(token);
        }
        let store = builder.build().map_err(refused)?;
        let runtime = Builder::new_current_thread().enable_time().build()?;
        Ok(Self { options, store, agent, runtime })
    }

    fn key(&self, name: &str) -> String {
        match self.options.prefix.trim_matches('/') {
            "" => name.to_owned(),
            prefix => format!("{prefix}/{name}"),
        }
    }

    fn path(&self, name: &str) -> Path {
        Path::from(self.key(name))
    }

    /// Sends a large object in parts. Only packs are so large, and they have random names.
    async fn put_in_parts(&self, path: &Path, content: &[u8], pace: &mut Pace<'_>) -> io::Result<bool> {
        match self.store.head(path).await {
            Ok(_) => return Ok(false),
            Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(refused(error)),
        }
        let mut upload = self.store.put_multipart(path).await.map_err(refused)?;
        let mut sent = Ok(());
        for part in content.chunks(PART_BYTES) {
            sent = match wait(pace, part) {
                Ok(()) => upload.put_part(PutPayload::from(part.to_vec())).await.map_err(refused),
                ended => ended,
            };
            if sent.is_err() {
                break;
            }
        }
        let sent = match sent {
            Ok(()) => upload.complete().await.map(drop).map_err(refused),
            failed => failed,
        };
        if sent.is_err() {
            // The store would charge for the parts. The first error is the one to report.
            let _ = upload.abort().await;
        }
        sent.map(|()| true)
    }
}

impl ObjectStore for S3 {
    fn put_new(&self, name: &str, content: &[u8], pace: &mut Pace<'_>) -> io::Result<bool> {
        let path = self.path(name);
        self.runtime.block_on(async {
            if content.len() > PART_BYTES {
                return self.put_in_parts(&path, content, pace).await;
            }
            wait(pace, content)?;
            let options = PutOptions::from(PutMode::Create);
            match self.store.put_opts(&path, PutPayload::from(content.to_vec()), options).await {
                Ok(_) => Ok(true),
                Err(Error::AlreadyExists { .. }) => Ok(false),
                Err(error) => Err(refused(error)),
            }
        })
    }

    fn read(&self, name: &str, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let range = offset..offset.saturating_add(len as u64);
        let read = self.runtime.block_on(self.store.get_range(&self.path(name), range));
        read.map(|bytes| bytes.to_vec()).map_err(refused)
    }

    fn size(&self, name: &str) -> io::Result<Option<u64>> {
        match self.runtime.block_on(self.store.head(&self.path(name))) {
            Ok(found) => Ok(Some(found.size)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(refused(error)),
        }
    }

    fn list(&self, prefix: &str, sink: &mut ObjectSink<'_>) -> io::Result<()> {
        let (full, root) = (self.key(prefix), self.key(""));
        let mut page_token = None;
        loop {
            let options = PaginatedListOptions { page_token, ..PaginatedListOptions::default() };
            let page =
                self.runtime.block_on(self.store.list_paginated(Some(&full), options)).map_err(refused)?;
            for object in &page.result.objects {
                let Some(name) = object.location.as_ref().strip_prefix(&root) else { continue };
                if sink(name, object.size).is_break() {
                    return Ok(());
                }
            }
            page_token = page.page_token;
            if page_token.is_none() {
                return Ok(());
            }
        }
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        match self.runtime.block_on(self.store.delete(&self.path(name))) {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(refused(error)),
        }
    }

    fn retain(&self, name: &str, until: Time) -> io::Result<bool> {
        retention::retain(&self.options, &self.agent, self.path(name).as_ref(), until)
    }
}

fn refused(error: Error) -> io::Error {
    let kind = match &error {
        Error::NotFound { .. } => ErrorKind::NotFound,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => ErrorKind::PermissionDenied,
        _ => ErrorKind::Other,
    };
    io::Error::new(kind, error)
}
