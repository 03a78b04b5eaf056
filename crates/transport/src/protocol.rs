//! What a protocol tells the transport: where messages end, what they ask for, and how they are answered.

use crate::connection::Connection;
use crate::context::Context;
use crate::limits;
use crate::message::{Body, Dispatch, Endpoints, Frame, Malformed, PartData, Role};
use crate::outbox::Outbox;
use crate::transform::Transform;
use std::ops::Deref;
use vfs::qos::Admission;
use vfs::{FsError, Volume, Wait};

/// What a message asks for, found out without doing any of it.
pub struct Plan<C> {
    /// The call, for [`Protocol::run`].
    pub call: C,
    /// How it may be done.
    pub dispatch: Dispatch,
    /// What it must pay before it is done, where a limit applies.
    pub toll: Option<Admission>,
}

/// How an attempt at a call ended.
pub enum Progress<C> {
    /// The reply is in the outbox, or the call has none.
    Done,
    /// The reply is in the outbox. It leaves when the pending flushes are done, and [`Protocol::synced`] is told.
    AfterSync(C),
    /// The call would block where it must not. The outbox is as before.
    WouldBlock(C),
    /// A [`crate::Late`] answers, from wherever it is.
    Detached,
    /// What was done is settled, and the outbox is as before. The call goes on at something that it has to pay for first, and takes so
    /// many bytes meanwhile. If too much waits, [`Protocol::cannot_wait`] answers it.
    Unpaid {
        /// Where it goes on.
        at: C,
        /// The memory that it takes.
        bytes: usize,
        /// What is to be paid.
        toll: Admission,
    },
    /// The reply is in the outbox and leaves as it is. What is sent and received after it goes through this.
    Switch(Box<dyn Transform>),
}

/// A protocol over connections.
///
/// A message's way: [`Protocol::frame`] finds its end, [`Protocol::plan`] finds out what it asks for, the transport has it
/// pay for what is limited, and [`Protocol::run`] does it, here or on a storage thread. What could not be finished goes on
/// from its continuation: no message is planned or run twice.
pub trait Protocol: Send + Sync + Sized + 'static {
    /// What a listener tells the connections that it accepts.
    type Listener: Clone + Send + Sync + 'static;
    /// What is known of one connection. Its calls run on several threads at a time.
    type Session: Send + Sync;
    /// What one thread remembers between calls, so that caches need no lock.
    type Memory;
    /// What a call is for, a pointer by which the volume is found that counts it.
    type Target: Deref<Target: AsRef<Volume>>;
    /// A call as it was planned, away from the message's bytes: where it refers to them, by their place.
    type Call: Send;
    /// Where a call goes on.
    type Continuation: Send;
    /// A call whose body is coming in.
    type Upload: Send;

    /// The longest message.
    const MESSAGE_BYTES_MAX: usize;
    /// With so many bytes, framing included, a message of which no more is there can be planned.
    const HEAD_BYTES: usize;
    /// The most bytes that follow the body of a long message: all of it, where messages are looked at as a whole.
    const TAIL_BYTES_MAX: usize = limits::TAIL_BYTES_MAX;

    /// The session of a new connection.
    fn session(&self, listener: &Self::Listener, ends: Endpoints) -> Self::Session;

    /// The memory of a thread, which may hold `cached_files` files open between calls.
    fn memory(&self, role: Role, cached_files: usize) -> Self::Memory;

    /// Calls that were received are about to be planned and run with `memory`: it takes up what has changed.
    fn begin_turn(&self, memory: &mut Self::Memory);

    /// The calls that were planned and run with `memory` are answered, or wait: nothing of them is kept there.
    fn end_turn(&self, _memory: &mut Self::Memory) {}

    /// The replies in `out` are about to leave, together: what is done best for several at a time is done now. `memory` is that
    /// of the thread which has made them.
    fn before_send(&self, _memory: &mut Self::Memory, _out: &mut Outbox) {}

    /// Called once a second on each event loop.
    fn tick(&self, _memory: &mut Self::Memory) {}

    /// What the front of the received bytes is; `in_parts` says that parts of the same message came before.
    fn frame(&self, have: &[u8], in_parts: bool) -> Result<Frame, Malformed>;

    /// What a message asks for. `None`: nothing is to be done; if it is refused, the refusal is in `out`. Of a message
    /// longer than [`crate::limits::WHOLE_MESSAGE_BYTES_MAX`] only the head is there.
    fn plan(
        &self,
        connection: &Connection<Self>,
        memory: &mut Self::Memory,
        message: &[u8],
        out: &mut Outbox,
    ) -> Result<Option<Plan<Self::Call>>, Malformed>;

    /// Whether a message of this call may be longer than a receive buffer: then it is taken as it comes
    /// ([`Protocol::begin_upload`]).
    fn streams(&self, connection: &Connection<Self>, call: &Self::Call) -> bool;

    /// The most bytes that the reply to a call may take, if that may be many.
    fn reply_bytes_max(&self, call: &Self::Call, message: &[u8]) -> u32;

    /// The same for a call that goes on.
    fn reply_bytes_max_at(&self, at: &Self::Continuation) -> u32;

    /// The memory that a call takes before it begins, in bytes: its message, and what was made of that.
    fn bytes(&self, _call: &Self::Call, message: &[u8]) -> usize {
        message.len()
    }

    /// The same of a call that goes on.
    fn bytes_at(&self, at: &Self::Continuation) -> usize;

    /// Does a call, as far as `cx.blocking` allows.
    fn run(
        &self,
        cx: &mut Context<'_, Self>,
        call: Self::Call,
        message: &[u8],
    ) -> Progress<Self::Continuation>;

    /// Goes on with a call that would have blocked.
    fn resume(&self, cx: &mut Context<'_, Self>, at: Self::Continuation) -> Progress<Self::Continuation>;

    /// The flushes are done that a reply waited for, which leaves now. Its bytes, unless part of it lies in a pipe. What is
    /// given back is dropped when the reply has left.
    fn synced(&self, at: Self::Continuation, reply: Option<&[u8]>) -> Option<Self::Continuation>;

    /// Answers a call that cannot go on: the flushes failed that its reply waited for, or there is no room for a reply.
    fn fail(&self, at: Self::Continuation, error: FsError, out: &mut Outbox);

    /// Goes on with a call that was [`Progress::Unpaid`] and cannot wait, as too much waits already: nothing more of it is done that has
    /// to be paid for.
    fn cannot_wait(
        &self,
        cx: &mut Context<'_, Self>,
        at: Self::Continuation,
    ) -> Progress<Self::Continuation> {
        self.fail(at, FsError::Wait(Wait::Recall), cx.out);
        Progress::Done
    }

    /// Answers a call that is not done.
    fn refuse(&self, call: &Self::Call, message: &[u8], error: FsError, out: &mut Outbox);

    /// Begins a call whose body comes in parts; `message_bytes` is the length of the whole message, of which `head` is there.
    /// A call with a `refusal` gets it for an answer, whatever its body is.
    fn begin_upload(
        &self,
        call: Self::Call,
        head: &[u8],
        message_bytes: usize,
        refusal: Option<FsError>,
    ) -> Result<(Self::Upload, Body), Malformed>;

    /// Takes the part that begins `at` bytes into the body. How many bytes of it are stored.
    fn upload(
        &self,
        cx: &mut Context<'_, Self>,
        upload: &mut Self::Upload,
        at: usize,
        data: PartData<'_>,
    ) -> usize;

    /// All of the body was taken; `tail` is what follows it in the message.
    fn finish_upload(
        &self,
        cx: &mut Context<'_, Self>,
        upload: Self::Upload,
        tail: &[u8],
    ) -> Progress<Self::Continuation>;
}
