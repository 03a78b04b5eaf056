//! Cache of callers: credentials by their encoded bytes, and the identities that export rules map them to.

use super::Table;
use nfs_wire::rpc::AuthSys;
use std::sync::Arc;
use vfs::{Caller, Credential, Export, ExportRule, Proof};
use xdr::{Decode, Malformed, Reader};

/// Length of the stamp before the identity. Some clients change it in every call.
const STAMP_BYTES: usize = 4;

pub struct CredentialCache {
    credentials: Table<CachedCredential>,
    callers: Table<CachedCaller>,
}

struct CachedCredential {
    body: Box<[u8]>,
    credential: Arc<Credential>,
}

/// The caller that an export rule maps a credential to.
/// Holds the export so that the address of its rule is not reused.
struct CachedCaller {
    credential: Arc<Credential>,
    export: Arc<Export>,
    rule: *const ExportRule,
    caller: Caller,
}

impl CachedCaller {
    fn is(&self, credential: &Arc<Credential>, rule: &ExportRule) -> bool {
        std::ptr::eq(self.rule, rule) && Arc::ptr_eq(&self.credential, credential)
    }
}

impl CredentialCache {
    pub fn new(entries: usize) -> Self {
        Self { credentials: Table::new(entries), callers: Table::new(entries) }
    }

    #[inline]
    pub fn credential(&mut self, body: &[u8]) -> Result<Arc<Credential>, Malformed> {
        let claimed = body.get(STAMP_BYTES..).unwrap_or_default();
        let hash = body_hash(claimed);
        if let Some(cached) = self.credentials.find(hash, |claim| *claim.body == *claimed) {
            return Ok(Arc::clone(&cached.credential));
        }
        let credential = decode(body)?;
        let claim = CachedCredential { body: claimed.into(), credential: Arc::clone(&credential) };
        self.credentials.insert(hash, claim);
        Ok(credential)
    }

    #[inline]
    pub fn caller(
        &mut self,
        credential: &Arc<Credential>,
        export: &Arc<Export>,
        rule: &ExportRule,
    ) -> Caller {
        let place = Arc::as_ptr(credential).addr() ^ std::ptr::from_ref(rule).addr();
        let hash = spread(place as u64);
        if let Some(cached) = self.callers.find(hash, |view| view.is(credential, rule)) {
            return cached.caller.clone();
        }
        let caller = rule.caller(credential);
        let (credential, export) = (Arc::clone(credential), Arc::clone(export));
        self.callers.insert(hash, CachedCaller { credential, export, rule, caller: caller.clone() });
        caller
    }

    pub(super) fn retain(&mut self, is_served: impl Fn(&Arc<Export>) -> bool) {
        self.callers.retain(|view| is_served(&view.export));
    }

    /// Drops entries not used since the last sweep.
    pub(super) fn sweep(&mut self) {
        self.credentials.sweep();
        self.callers.sweep();
    }
}

/// Decodes the body of an AUTH_SYS `opaque_auth`.
/// Refuses a client with more groups than the protocol allows, instead of cutting the list.
pub fn decode(body: &[u8]) -> Result<Arc<Credential>, Malformed> {
    let sys = AuthSys::decode(&mut Reader::new(body))?;
    Ok(Credential::new(Proof::Claimed, sys.uid, sys.gid, sys.gids.iter().copied()))
}

/// A client that chooses colliding bytes evicts only other colliding entries.
fn body_hash(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let rest = rest.iter().fold(bytes.len() as u64, |hash, &byte| hash << 8 | u64::from(byte));
    words.iter().fold(spread(rest), |hash, &word| spread(hash ^ u64::from_le_bytes(word)))
}

fn spread(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::{Durability, Squash, Time, Volume, VolumeId};
    use vfs_testing::MemFs;
    use xdr::{Encode, Inline};

    fn body(stamp: u32, uid: u32, gids: &[u32]) -> Vec<u8> {
        AuthSys { stamp, machinename: b"ship", uid, gid: 100, gids: Inline::new(gids).unwrap() }.to_bytes()
    }

    fn export(squash: Squash, read_only: bool) -> Arc<Export> {
        let fs = Arc::new(MemFs::new(Arc::new(Time::default)));
        let volume = Arc::new(Volume::new(VolumeId(1), "v", fs, Durability::Sync, 1));
        let rules = vec![ExportRule { squash, read_only, ..ExportRule::everybody() }];
        Arc::new(Export::new("/v", volume, rules))
    }

    #[test]
    fn equal_bytes_return_the_cached_credential() {
        let mut cache = CredentialCache::new(16);
        let first = cache.credential(&body(1, 7, &[5, 6])).unwrap();
        assert_eq!((first.uid, first.gid, first.groups()), (7, 100, &[5, 6][..]));
        assert!(Arc::ptr_eq(&first, &cache.credential(&body(2, 7, &[5, 6])).unwrap()), "whatever the stamp");
        for other in [body(1, 8, &[5, 6]), body(1, 7, &[5]), body(1, 7, &[5, 6, 7])] {
            assert_ne!(cache.credential(&other).unwrap(), first);
        }
        for bad in [&[][..], &[0; 3], &body(1, 7, &[5, 6])[..27]] {
            assert!(cache.credential(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_caller_is_what_the_rule_makes_of_the_credential_now() {
        let mut cache = CredentialCache::new(16);
        let root = cache.credential(&body(1, 0, &[0])).unwrap();
        let (trusting, careful) = (export(Squash::None, false), export(Squash::Root, true));
        for _ in 0..2 {
            let uid_of = |cache: &mut CredentialCache, export: &Arc<Export>| {
                let caller = cache.caller(&root, export, &export.rules[0]);
                (caller.uid, caller.read_only)
            };
            assert_eq!(uid_of(&mut cache, &trusting), (0, false));
            assert_eq!(uid_of(&mut cache, &careful), (vfs::namespace::ANONYMOUS_ID, true));
        }
        cache.retain(|export| Arc::ptr_eq(export, &careful));
        assert_eq!(Arc::strong_count(&trusting), 1, "what is not served any more is let go");
        assert_eq!(Arc::strong_count(&careful), 2);
    }
}
