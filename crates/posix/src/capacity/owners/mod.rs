//! Counts a volume by user and group, if it has quotas or once was asked for a report: exact under concurrency.
//!
//! The count is beside the volume's own ([`super::ledger`]) and works like it: growth is charged before the change and
//! corrected after it, under the file's lock; a mark says that the table is in use; a clean close saves the table, and
//! after a crash a walk over the files makes it anew. A volume that does not count by owner pays one load for a change.
//!
//! The count begins while the volume is served. From then on changes are refused until the walk has ended, so it first
//! waits for those that began earlier ([`LiveFiles::settle`]).

pub(crate) mod accounts;
pub(crate) mod files;

use super::dir_lock::DirLock;
use accounts::{Accounts, OwnerIds, Tally};
use files::{AccountFile, Place, SavedAccount, SavedAccounts};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use vfs::sync::Mutex;
use vfs::{FsError, FsResult, QuotaRule, QuotaRules, SoftExcess, Usage, Wait};

const OFF: u8 = 0;
const COUNTED: u8 = 1;
const COUNTING: u8 = 2;
const UNCOUNTABLE: u8 = 3;
/// Counted, and the process is ending: no change may begin.
const CLOSED: u8 = 4;

/// The open files of a volume.
pub(crate) trait LiveFiles: Send + Sync {
    /// Waits until every change that began before this call has ended. False if `is_cancelled` ended it early.
    fn settle(&self, is_cancelled: &dyn Fn() -> bool) -> bool;

    /// Passes on the charge of each open file without a name. From now on its last close refunds it.
    fn count_nameless(&self, take: &mut dyn FnMut(OwnerIds, Usage));

    /// The charges of the open files without a name that are refunded at their last close.
    fn nameless(&self, take: &mut dyn FnMut(OwnerIds, Usage));

    fn uses_owner_attribute(&self) -> bool;
}

pub(crate) struct OwnerLedger {
    state: AtomicU8,
    has_rules: AtomicBool,
    pending: AtomicU64,
    /// The saved table says that it is in use.
    marked: AtomicBool,
    doubtful: AtomicBool,
    removed: AtomicBool,
    accounts: Accounts,
    /// Times from the saved table, until the volume is counted.
    saved_excess: Mutex<Vec<SavedAccount>>,
    place: Place,
    /// `None` before the volume counts by owner.
    file: Mutex<Option<AccountFile>>,
    live: Mutex<Option<Weak<dyn LiveFiles>>>,
    _dir_lock: Arc<DirLock>,
}

/// A change under way. Ends on drop.
pub(crate) struct PendingOwnerChange<'l>(&'l OwnerLedger);

impl Drop for PendingOwnerChange<'_> {
    fn drop(&mut self) {
        self.0.pending.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A change of a file's size under way. Bytes that were charged for it stay charged unless [`OwnerResize::end`] refunds
/// them.
pub(crate) struct OwnerResize<'l> {
    ledger: &'l OwnerLedger,
    _pending: PendingOwnerChange<'l>,
    ids: OwnerIds,
}

impl OwnerResize<'_> {
    pub(crate) fn end(self, surplus: u64) {
        self.ledger.refund(self.ids, Usage { bytes: surplus, files: 0 });
    }
}

/// A charge of a change under way. Refunded on drop unless committed.
pub(crate) struct OwnerCharge<'l> {
    ledger: &'l OwnerLedger,
    _pending: PendingOwnerChange<'l>,
    ids: OwnerIds,
    amount: Usage,
}

impl OwnerCharge<'_> {
    /// The change is done; `surplus` of the charge was not needed.
    pub(crate) fn commit(mut self, surplus: Usage) {
        self.amount = surplus;
    }

    /// The change is done; with `ids`, the charge is theirs.
    pub(crate) fn commit_to(mut self, ids: Option<OwnerIds>) {
        match ids {
            Some(ids) => self.ledger.accounts.force(ids, self.amount),
            None => self.amount = Usage::default(),
        }
    }
}

impl Drop for OwnerCharge<'_> {
    fn drop(&mut self) {
        self.ledger.refund(self.ids, self.amount);
    }
}

impl OwnerLedger {
    /// Continues from the saved files of a volume. Damaged rules do not bind, and have to be set again.
    pub(crate) fn open(place: Place, dir_lock: Arc<DirLock>) -> FsResult<Self> {
        let file = AccountFile::open(&place)?;
        let listed = files::read_rules(&place).or_else(|error| match error {
            FsError::Io => {
                tracing::error!(
                    volume = place.name,
                    "the file with the quota rules is damaged: no rule binds"
                );
                Ok(Vec::new())
            }
            error => Err(error),
        })?;
        let rules = QuotaRules::new(&listed)?;
        let saved = file.as_ref().map_or_else(|| Ok(SavedAccounts::default()), AccountFile::read)?;
        let state = match (&file, saved.is_clean) {
            (None, _) if listed.is_empty() => OFF,
            (None, _) | (Some(_), false) => COUNTING,
            (Some(_), true) => COUNTED,
        };
        let ledger = Self {
            state: AtomicU8::new(state),
            has_rules: AtomicBool::new(!rules.is_empty()),
            pending: AtomicU64::new(0),
            marked: AtomicBool::new(file.is_some() && !saved.is_clean),
            doubtful: AtomicBool::new(false),
            removed: AtomicBool::new(false),
            accounts: Accounts::new(rules),
            saved_excess: Mutex::default(),
            place,
            file: Mutex::new(file),
            live: Mutex::default(),
            _dir_lock: dir_lock,
        };
        if state == COUNTED {
            for SavedAccount { owner, used, .. } in &saved.accounts {
                ledger.accounts.force(OwnerIds::of(*owner), *used);
            }
            ledger.restore_excess(&saved.accounts);
        } else {
            *ledger.saved_excess.lock() = saved.accounts;
        }
        Ok(ledger)
    }

    fn restore_excess(&self, saved: &[SavedAccount]) {
        for SavedAccount { owner, excess, .. } in saved {
            if *excess != SoftExcess::default() {
                self.accounts.set_excess(*owner, *excess);
            }
        }
    }

    pub(crate) fn attach(&self, live: Weak<dyn LiveFiles>) {
        *self.live.lock() = Some(live);
    }

    pub(crate) fn live(&self) -> Option<Arc<dyn LiveFiles>> {
        self.live.lock().as_ref().and_then(Weak::upgrade)
    }

    pub(crate) fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// This ledger, if the volume counts by owner.
    #[inline]
    pub(crate) fn if_on(&self) -> Option<&Self> {
        (self.state.load(Ordering::Relaxed) != OFF).then_some(self)
    }

    pub(crate) fn has_rules(&self) -> bool {
        self.has_rules.load(Ordering::Relaxed)
    }

    /// Replaces the rules, durably.
    pub(crate) fn set_rules(&self, rules: &[QuotaRule]) -> FsResult<()> {
        let checked = QuotaRules::new(rules)?;
        // One at a time: the file and the memory agree.
        let _locked = self.file.lock();
        self.check_present()?;
        files::write_rules(&self.place, &checked.list())?;
        self.has_rules.store(!checked.is_empty(), Ordering::Relaxed);
        self.accounts.set_rules(checked);
        Ok(())
    }

    /// A removed volume must leave no files.
    fn check_present(&self) -> FsResult<()> {
        if self.removed.load(Ordering::Relaxed) { Err(FsError::Stale) } else { Ok(()) }
    }

    /// Begins to count by owner. Returns whether nothing did before.
    pub(crate) fn start(&self) -> FsResult<bool> {
        let mut file = self.file.lock();
        if self.state.load(Ordering::SeqCst) != OFF {
            return Ok(false);
        }
        self.check_present()?;
        self.marked.store(true, Ordering::Release);
        file.insert(AccountFile::create(&self.place)?).mark()?;
        self.state.store(COUNTING, Ordering::SeqCst);
        Ok(true)
    }

    /// Begins a change. [`FsError::Wait`]`(Wait::Recall)` while the volume is counted and while the process ends;
    /// [`FsError::Io`] if it cannot be counted.
    pub(crate) fn begin(&self) -> FsResult<PendingOwnerChange<'_>> {
        let pending = self.begin_refund();
        match self.state.load(Ordering::SeqCst) {
            COUNTED => Ok(pending),
            COUNTING | CLOSED => Err(FsError::Wait(Wait::Recall)),
            _ => Err(FsError::Io),
        }
    }

    /// Begins a change that only refunds, in any state.
    pub(crate) fn begin_refund(&self) -> PendingOwnerChange<'_> {
        // Before the state is read: `close` reads the two in the other order.
        self.pending.fetch_add(1, Ordering::SeqCst);
        PendingOwnerChange(self)
    }

    /// Continues a change that was begun and forgotten.
    pub(crate) fn resume(&self) -> PendingOwnerChange<'_> {
        PendingOwnerChange(self)
    }

    /// Charges user and group for a change, all or nothing; [`FsError::Quota`] if a limit refuses it.
    pub(crate) fn charge(&self, ids: OwnerIds, amount: Usage) -> FsResult<OwnerCharge<'_>> {
        let pending = self.begin()?;
        self.mark()?;
        self.accounts.charge(ids, amount)?;
        Ok(OwnerCharge { ledger: self, _pending: pending, ids, amount })
    }

    /// Begins a change of a file's charge from `before` bytes to `after`.
    pub(crate) fn begin_resize(&self, ids: OwnerIds, before: u64, after: u64) -> FsResult<OwnerResize<'_>> {
        let pending = self.begin()?;
        if after > before {
            self.mark()?;
            self.accounts.charge(ids, Usage { bytes: after - before, files: 0 })?;
        } else {
            self.mark_best_effort();
        }
        Ok(OwnerResize { ledger: self, _pending: pending, ids })
    }

    pub(crate) fn refund(&self, ids: OwnerIds, amount: Usage) {
        if amount == Usage::default() || ids.is_none() {
            return;
        }
        if !self.accounts.refund(ids, amount) {
            // Another process changed the files.
            self.mark_doubtful();
        }
        // The mark of an orderly end must go if the count has changed after it.
        if self.state.load(Ordering::SeqCst) == CLOSED && self.mark().is_err() {
            tracing::error!(volume = self.place.name, "cannot mark the saved usage by owner as outdated");
        }
    }

    /// Marks the table as in use before a change that only refunds.
    pub(crate) fn mark_best_effort(&self) {
        // If the mark cannot be written, a crash leaves a count that is too high: the safe side.
        let _marked = self.mark();
    }

    #[inline]
    fn mark(&self) -> FsResult<()> {
        if self.marked.load(Ordering::Acquire) { Ok(()) } else { self.mark_now() }
    }

    #[cold]
    fn mark_now(&self) -> FsResult<()> {
        let file = self.file.lock();
        if !self.marked.load(Ordering::Acquire)
            && let Some(file) = &*file
        {
            file.mark()?;
            self.marked.store(true, Ordering::Release);
        }
        Ok(())
    }

    pub(crate) fn mark_doubtful(&self) {
        self.doubtful.store(true, Ordering::Relaxed);
    }

    pub(crate) fn set_removed(&self) {
        self.removed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_uncounted(&self) -> bool {
        let state = self.state.load(Ordering::Acquire);
        matches!(state, COUNTING | UNCOUNTABLE) && !self.removed.load(Ordering::Relaxed)
    }

    pub(crate) fn is_counting(&self) -> bool {
        self.state.load(Ordering::Acquire) == COUNTING
    }

    /// Whether the usage is known.
    pub(crate) fn is_known(&self) -> bool {
        matches!(self.state.load(Ordering::Acquire), COUNTED | CLOSED)
    }

    /// Adds the counted files to the open ones without a name, which are counted already.
    pub(crate) fn set_counted(&self, tally: &Tally) -> FsResult<()> {
        let mut file = self.file.lock();
        if file.is_none() {
            // There were rules, but a crash or a person took the table.
            self.marked.store(true, Ordering::Release);
            file.insert(AccountFile::create(&self.place)?).mark()?;
        }
        for (&owner, &used) in tally {
            self.accounts.force(OwnerIds::of(owner), used);
        }
        let saved = std::mem::take(&mut *self.saved_excess.lock());
        self.restore_excess(&saved);
        self.state.store(COUNTED, Ordering::SeqCst);
        Ok(())
    }

    pub(crate) fn set_uncountable(&self) {
        self.state.store(UNCOUNTABLE, Ordering::SeqCst);
    }

    /// Restarts a count that failed. Returns whether there was one.
    pub(crate) fn retry(&self) -> bool {
        let retry = self.state.compare_exchange(UNCOUNTABLE, COUNTING, Ordering::SeqCst, Ordering::SeqCst);
        retry.is_ok()
    }

    fn saved(&self) -> Vec<SavedAccount> {
        self.accounts.report().iter().map(SavedAccount::from).collect()
    }

    /// Saves the times at which soft limits were exceeded, for after a crash.
    pub(crate) fn checkpoint(&self) {
        let saved = self.saved();
        let has_excess = saved.iter().any(|account| account.excess != SoftExcess::default());
        let file = self.file.lock();
        let is_marked = self.marked.load(Ordering::Relaxed) && !self.removed.load(Ordering::Relaxed);
        if let (Some(file), true, true) = (&*file, has_excess && self.is_known(), is_marked) {
            // A failure costs only the times: the saved mark already requires a recount.
            let _written = file.write_lazily(&saved);
        }
    }

    /// Ends the count: no change may begin. Waits until `until` for changes under way.
    pub(crate) fn close(&self, until: Instant) {
        // A volume that is not counted yet is counted at the next start.
        let _closed = self.state.compare_exchange(COUNTED, CLOSED, Ordering::SeqCst, Ordering::SeqCst);
        while self.pending.load(Ordering::SeqCst) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Saves the table. Call after [`OwnerLedger::close`]; `sync` flushes the files first.
    pub(crate) fn seal(&self, sync: impl FnOnce() -> FsResult<()>) {
        if self.removed.load(Ordering::Relaxed) || !self.marked.load(Ordering::Acquire) {
            return;
        }
        let is_exact = self.state.load(Ordering::SeqCst) == CLOSED && !self.doubtful.load(Ordering::Relaxed);
        if !is_exact || self.pending.load(Ordering::SeqCst) > 0 {
            tracing::info!(
                volume = self.place.name,
                "the usage by owner is uncertain: the next start counts it"
            );
            return;
        }
        let synced = sync();
        let file = self.file.lock();
        let Some(file) = &*file else { return };
        match synced.and_then(|()| file.seal(&self.saved())) {
            Ok(()) => self.marked.store(false, Ordering::Release),
            Err(error) => {
                tracing::warn!(volume = self.place.name, %error, "cannot save the usage by owner: the next start counts it");
            }
        }
    }
}
