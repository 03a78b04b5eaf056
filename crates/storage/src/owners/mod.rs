//! Counts a volume by user and group, if it has quotas or once was asked for a report: exact under concurrency.
//!
//! The count is beside the volume's own ([`crate::Ledger`]) and works like it: growth is charged before the change and
//! corrected after it, under the file's lock; a mark says that the table is in use; a clean close saves the table, and
//! after a crash a walk over the files makes it anew. A volume that does not count by owner pays one load for a change.
//!
//! The count begins while the volume is served. From then on changes are refused until the walk has ended, so it first
//! waits for those that began earlier ([`LiveFiles::settle`]).

mod accounts;
mod check;
mod records;

pub use accounts::{OwnerIds, Tally, add_to_tally, merge_tally};

use accounts::Accounts;
use records::{
    MARK_CLEAN, MARK_IN_USE, SavedAccount, decode_accounts, decode_rules, encode_accounts, encode_rules,
};
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
pub trait LiveFiles: Send + Sync {
    /// Waits until every change that began before this call has ended. False if `is_cancelled` ended it early.
    fn settle(&self, is_cancelled: &dyn Fn() -> bool) -> bool;

    /// Passes on the charge of each open file without a name. From now on its last close refunds it.
    fn count_nameless(&self, take: &mut dyn FnMut(OwnerIds, Usage));

    /// The charges of the open files without a name that are refunded at their last close.
    fn nameless(&self, take: &mut dyn FnMut(OwnerIds, Usage));
}

/// The files with the rules of a volume and its usage by owner, the table.
pub trait OwnerStore: Send {
    /// Opens the table if there is one; with `creates`, makes one. Returns whether it is open.
    fn open_table(&mut self, creates: bool) -> FsResult<bool>;

    fn read_table(&self) -> FsResult<Vec<u8>>;

    /// Writes the start of the open table, without waiting for the disk. With `is_whole`, nothing else remains in it.
    fn write_table(&self, start: &[u8], is_whole: bool) -> FsResult<()>;

    /// Makes the table durable.
    fn sync_table(&self) -> FsResult<()>;

    /// `None` if there are no rules.
    fn read_rules(&self) -> FsResult<Option<Vec<u8>>>;

    /// Replaces the rules, durably, all or nothing.
    fn replace_rules(&self, bytes: &[u8]) -> FsResult<()>;
}

/// The files of a volume, and whether its table is open.
struct Saved {
    store: Box<dyn OwnerStore>,
    is_open: bool,
}

impl Saved {
    fn create(&mut self) -> FsResult<()> {
        self.is_open = self.store.open_table(true)?;
        self.mark(MARK_IN_USE)
    }

    /// Marks the table, durably.
    fn mark(&self, mark: &[u8]) -> FsResult<()> {
        self.store.write_table(mark, false)?;
        self.store.sync_table()
    }

    /// Writes an exact table, durably: the mark follows when all else is on the disk.
    fn seal(&self, accounts: &[SavedAccount]) -> FsResult<()> {
        self.store.write_table(&encode_accounts(accounts), true)?;
        self.store.sync_table()?;
        self.mark(MARK_CLEAN)
    }
}

pub struct OwnerLedger {
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
    /// The name of the volume, for messages.
    name: String,
    /// The table is not open before the volume counts by owner.
    saved: Mutex<Saved>,
    live: Mutex<Option<Weak<dyn LiveFiles>>>,
}

/// A change under way. Ends on drop.
pub struct PendingOwnerChange<'l>(&'l OwnerLedger);

impl Drop for PendingOwnerChange<'_> {
    fn drop(&mut self) {
        self.0.pending.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A change of a file's size under way. Bytes that were charged for it stay charged unless [`OwnerResize::end`] refunds
/// them.
pub struct OwnerResize<'l> {
    ledger: &'l OwnerLedger,
    _pending: PendingOwnerChange<'l>,
    ids: OwnerIds,
}

impl OwnerResize<'_> {
    pub fn end(self, surplus: u64) {
        self.ledger.refund(self.ids, Usage { bytes: surplus, files: 0 });
    }
}

/// A charge of a change under way. Refunded on drop unless committed.
pub struct OwnerCharge<'l> {
    ledger: &'l OwnerLedger,
    _pending: PendingOwnerChange<'l>,
    ids: OwnerIds,
    amount: Usage,
}

impl OwnerCharge<'_> {
    /// The change is done; `surplus` of the charge was not needed.
    fn commit(mut self, surplus: Usage) {
        self.amount = surplus;
    }

    /// The change is done; with `ids`, the charge is theirs.
    pub fn commit_to(mut self, ids: Option<OwnerIds>) {
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

/// A change of a file's owners under way: the new ones are charged already. Refunded on drop.
pub struct OwnerMove<'l> {
    charge: OwnerCharge<'l>,
    charged: u64,
    from: OwnerIds,
    to: OwnerIds,
}

impl OwnerMove<'_> {
    /// Ends the change by the owners that the file has now, and the bytes that it is charged for. `None` if they are not
    /// known.
    pub fn end(self, now: Option<(OwnerIds, u64)>) {
        let Self { charge, charged, from, to } = self;
        let Some((ids, bytes)) = now else { return charge.ledger.mark_doubtful() };
        // Those that stay are in neither.
        if to.is_within(ids) {
            let ledger = charge.ledger;
            charge.commit(Usage { bytes: charged.saturating_sub(bytes), files: 0 });
            ledger.refund(from, Usage { bytes, files: 1 });
        }
    }
}

impl OwnerLedger {
    /// Continues from the saved files of the volume `name`. Damaged rules do not bind, and have to be set again.
    pub fn open(name: String, mut store: Box<dyn OwnerStore>) -> FsResult<Self> {
        let is_open = store.open_table(false)?;
        let listed = match store.read_rules()?.map(|bytes| decode_rules(&bytes)) {
            None => Vec::new(),
            Some(Some(rules)) => rules,
            Some(None) => {
                tracing::error!(volume = name, "the file with the quota rules is damaged: no rule binds");
                Vec::new()
            }
        };
        let rules = QuotaRules::new(&listed)?;
        // Nothing, and not clean, if the contents are invalid.
        let read = is_open.then(|| store.read_table()).transpose()?;
        let saved = read.and_then(|bytes| decode_accounts(&bytes)).unwrap_or_default();
        let state = match (is_open, saved.is_clean) {
            (false, _) if listed.is_empty() => OFF,
            (false, _) | (true, false) => COUNTING,
            (true, true) => COUNTED,
        };
        let ledger = Self {
            state: AtomicU8::new(state),
            has_rules: AtomicBool::new(!rules.is_empty()),
            pending: AtomicU64::new(0),
            marked: AtomicBool::new(is_open && !saved.is_clean),
            doubtful: AtomicBool::new(false),
            removed: AtomicBool::new(false),
            accounts: Accounts::new(rules),
            saved_excess: Mutex::default(),
            name,
            saved: Mutex::new(Saved { store, is_open }),
            live: Mutex::default(),
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

    /// Marks the saved usage as outdated, durably: the next opening counts the files.
    pub fn require_count(mut store: Box<dyn OwnerStore>) -> FsResult<()> {
        let is_open = store.open_table(false)?;
        if is_open { Saved { store, is_open }.mark(MARK_IN_USE) } else { Ok(()) }
    }

    fn restore_excess(&self, saved: &[SavedAccount]) {
        for SavedAccount { owner, excess, .. } in saved {
            if *excess != SoftExcess::default() {
                self.accounts.set_excess(*owner, *excess);
            }
        }
    }

    pub fn attach(&self, live: Weak<dyn LiveFiles>) {
        *self.live.lock() = Some(live);
    }

    pub fn live(&self) -> Option<Arc<dyn LiveFiles>> {
        self.live.lock().as_ref().and_then(Weak::upgrade)
    }

    /// Charges what is there already, even past the limits.
    pub fn force(&self, ids: OwnerIds, amount: Usage) {
        self.accounts.force(ids, amount);
    }

    /// This ledger, if the volume counts by owner.
    #[inline]
    pub fn if_on(&self) -> Option<&Self> {
        (self.state.load(Ordering::Relaxed) != OFF).then_some(self)
    }

    pub fn has_rules(&self) -> bool {
        self.has_rules.load(Ordering::Relaxed)
    }

    /// Replaces the rules, durably.
    pub fn set_rules(&self, rules: &[QuotaRule]) -> FsResult<()> {
        let checked = QuotaRules::new(rules)?;
        // One at a time: the file and the memory agree.
        let saved = self.saved.lock();
        self.check_present()?;
        saved.store.replace_rules(&encode_rules(&checked.list()))?;
        self.has_rules.store(!checked.is_empty(), Ordering::Relaxed);
        self.accounts.set_rules(checked);
        Ok(())
    }

    /// A removed volume must leave no files.
    fn check_present(&self) -> FsResult<()> {
        if self.removed.load(Ordering::Relaxed) { Err(FsError::Stale) } else { Ok(()) }
    }

    /// Begins to count by owner. Returns whether nothing did before.
    pub fn start(&self) -> FsResult<bool> {
        let mut saved = self.saved.lock();
        if self.state.load(Ordering::SeqCst) != OFF {
            return Ok(false);
        }
        self.check_present()?;
        self.marked.store(true, Ordering::Release);
        saved.create()?;
        self.state.store(COUNTING, Ordering::SeqCst);
        Ok(true)
    }

    /// Begins a change. [`FsError::Wait`]`(Wait::Recall)` while the volume is counted and while the process ends;
    /// [`FsError::Io`] if it cannot be counted.
    pub fn begin(&self) -> FsResult<PendingOwnerChange<'_>> {
        let pending = self.begin_refund();
        match self.state.load(Ordering::SeqCst) {
            COUNTED => Ok(pending),
            COUNTING | CLOSED => Err(FsError::Wait(Wait::Recall)),
            _ => Err(FsError::Io),
        }
    }

    /// Begins a change that only refunds, in any state.
    pub fn begin_refund(&self) -> PendingOwnerChange<'_> {
        // Before the state is read: `close` reads the two in the other order.
        self.pending.fetch_add(1, Ordering::SeqCst);
        PendingOwnerChange(self)
    }

    /// Continues a change that was begun and forgotten.
    pub fn resume(&self) -> PendingOwnerChange<'_> {
        PendingOwnerChange(self)
    }

    /// Charges user and group for a change, all or nothing; [`FsError::Quota`] if a limit refuses it.
    pub fn charge(&self, ids: OwnerIds, amount: Usage) -> FsResult<OwnerCharge<'_>> {
        let pending = self.begin()?;
        self.mark()?;
        self.accounts.charge(ids, amount)?;
        Ok(OwnerCharge { ledger: self, _pending: pending, ids, amount })
    }

    /// Begins a change of a file's charge from `before` bytes to `after`.
    pub fn begin_resize(&self, ids: OwnerIds, before: u64, after: u64) -> FsResult<OwnerResize<'_>> {
        let pending = self.begin()?;
        if after > before {
            self.mark()?;
            self.accounts.charge(ids, Usage { bytes: after - before, files: 0 })?;
        } else {
            self.mark_best_effort();
        }
        Ok(OwnerResize { ledger: self, _pending: pending, ids })
    }

    /// Charges the new owners of a file that is charged for `bytes`; `None` if they are the old ones.
    pub fn begin_move(&self, old: OwnerIds, new: OwnerIds, bytes: u64) -> FsResult<Option<OwnerMove<'_>>> {
        let (from, to) = (old.other_than(new), new.other_than(old));
        if to.is_none() {
            return Ok(None);
        }
        let charge = self.charge(to, Usage { bytes, files: 1 })?;
        Ok(Some(OwnerMove { charge, charged: bytes, from, to }))
    }

    pub fn refund(&self, ids: OwnerIds, amount: Usage) {
        if amount == Usage::default() || ids.is_none() {
            return;
        }
        if !self.accounts.refund(ids, amount) {
            // Another process changed the files.
            self.mark_doubtful();
        }
        // The mark of an orderly end must go if the count has changed after it.
        if self.state.load(Ordering::SeqCst) == CLOSED && self.mark().is_err() {
            tracing::error!(volume = self.name, "cannot mark the saved usage by owner as outdated");
        }
    }

    /// Marks the table as in use before a change that only refunds.
    pub fn mark_best_effort(&self) {
        // If the mark cannot be written, a crash leaves a count that is too high: the safe side.
        let _marked = self.mark();
    }

    #[inline]
    fn mark(&self) -> FsResult<()> {
        if self.marked.load(Ordering::Acquire) { Ok(()) } else { self.mark_now() }
    }

    #[cold]
    fn mark_now(&self) -> FsResult<()> {
        let saved = self.saved.lock();
        if !self.marked.load(Ordering::Acquire) && saved.is_open {
            saved.mark(MARK_IN_USE)?;
            self.marked.store(true, Ordering::Release);
        }
        Ok(())
    }

    pub fn mark_doubtful(&self) {
        self.doubtful.store(true, Ordering::Relaxed);
    }

    pub fn set_removed(&self) {
        self.removed.store(true, Ordering::Relaxed);
    }

    pub fn is_uncounted(&self) -> bool {
        let state = self.state.load(Ordering::Acquire);
        matches!(state, COUNTING | UNCOUNTABLE) && !self.removed.load(Ordering::Relaxed)
    }

    pub fn is_counting(&self) -> bool {
        self.state.load(Ordering::Acquire) == COUNTING
    }

    /// Whether the usage is known.
    pub fn is_known(&self) -> bool {
        matches!(self.state.load(Ordering::Acquire), COUNTED | CLOSED)
    }

    /// Adds the counted files to the open ones without a name, which are counted already.
    pub fn set_counted(&self, tally: &Tally) -> FsResult<()> {
        let mut saved = self.saved.lock();
        if !saved.is_open {
            // There were rules, but a crash or a person took the table.
            self.marked.store(true, Ordering::Release);
            saved.create()?;
        }
        for (&owner, &used) in tally {
            self.accounts.force(OwnerIds::of(owner), used);
        }
        let excess = std::mem::take(&mut *self.saved_excess.lock());
        self.restore_excess(&excess);
        self.state.store(COUNTED, Ordering::SeqCst);
        Ok(())
    }

    pub fn set_uncountable(&self) {
        self.state.store(UNCOUNTABLE, Ordering::SeqCst);
    }

    /// Restarts a count that failed. Returns whether there was one.
    pub fn retry(&self) -> bool {
        let retry = self.state.compare_exchange(UNCOUNTABLE, COUNTING, Ordering::SeqCst, Ordering::SeqCst);
        retry.is_ok()
    }

    fn accounts_now(&self) -> Vec<SavedAccount> {
        self.accounts.report().iter().map(SavedAccount::from).collect()
    }

    /// Saves the times at which soft limits were exceeded, for after a crash.
    pub fn checkpoint(&self) {
        let accounts = self.accounts_now();
        let has_excess = accounts.iter().any(|account| account.excess != SoftExcess::default());
        let saved = self.saved.lock();
        let is_marked = self.marked.load(Ordering::Relaxed) && !self.removed.load(Ordering::Relaxed);
        if saved.is_open && has_excess && self.is_known() && is_marked {
            // A failure costs only the times: the saved mark already requires a recount.
            let _written = saved.store.write_table(&encode_accounts(&accounts), true);
        }
    }

    /// Ends the count: no change may begin. Waits until `until` for changes under way.
    pub fn close(&self, until: Instant) {
        // A volume that is not counted yet is counted at the next start.
        let _closed = self.state.compare_exchange(COUNTED, CLOSED, Ordering::SeqCst, Ordering::SeqCst);
        while self.pending.load(Ordering::SeqCst) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Saves the table. Call after [`OwnerLedger::close`]; `sync` flushes the files first.
    pub fn seal(&self, sync: impl FnOnce() -> FsResult<()>) {
        if self.removed.load(Ordering::Relaxed) || !self.marked.load(Ordering::Acquire) {
            return;
        }
        let is_exact = self.state.load(Ordering::SeqCst) == CLOSED && !self.doubtful.load(Ordering::Relaxed);
        if !is_exact || self.pending.load(Ordering::SeqCst) > 0 {
            tracing::info!(volume = self.name, "the usage by owner is uncertain: the next start counts it");
            return;
        }
        let synced = sync();
        let saved = self.saved.lock();
        if !saved.is_open {
            return;
        }
        match synced.and_then(|()| saved.seal(&self.accounts_now())) {
            Ok(()) => self.marked.store(false, Ordering::Release),
            Err(error) => {
                tracing::warn!(volume = self.name, %error, "cannot save the usage by owner: the next start counts it");
            }
        }
    }
}
