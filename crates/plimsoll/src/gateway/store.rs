//! The store of a cluster: objects in a RADOS pool.

use crate::ceph_config::CephConfig;
use ceph::{ObjectChange, Presence, Rados, RadosOptions};
use cluster::{Change, SharedStore};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

#[derive(Clone)]
pub(crate) struct RadosStore(Arc<Rados>);

impl RadosStore {
    pub(crate) fn connect(ceph: &CephConfig, pool: &str) -> anyhow::Result<Self> {
        let options = RadosOptions {
            conf: ceph.conf.clone(),
            user: ceph.user.clone(),
            pool: pool.to_owned(),
            connect_timeout: RadosOptions::CONNECT_TIMEOUT,
        };
        Ok(Self(Arc::new(Rados::connect(&options)?)))
    }
}

impl SharedStore for RadosStore {
    fn load(&self, object: &str, prefix: &str) -> io::Result<BTreeMap<String, Vec<u8>>> {
        Ok(self.0.load_prefix(object, prefix)?.unwrap_or_default())
    }

    fn change(&self, object: &str, change: &Change) -> io::Result<bool> {
        let Change { conditions, sets, removals } = change.clone();
        self.0.change(object, &ObjectChange { presence: Presence::Any, conditions, removals, sets })
    }
}
