//! The calls of one connection, unsent or in flight.

use wire_client::first_xid;
use wire_client::smb::channel::{Channel, Request};
use xdr::Writer;

use super::buffers::Outbox;
use crate::error::Error;
use crate::pattern::Payload;

/// The low bits of a call's xid are the number of its slot.
#[derive(Debug)]
pub(crate) struct Calls {
    pub(super) outbox: Outbox,
    /// The data of WRITEs, which is sent without a copy. A payload must not change until its call is
    /// answered.
    pub(crate) payloads: Vec<Payload>,
    pub(super) in_flight: usize,
    numbering: Numbering,
    /// Reported by the next send.
    pub(super) error: Option<Error>,
    slots: Vec<Slot>,
    slots_max: usize,
}

#[derive(Debug)]
enum Numbering {
    /// The low bits of RPC's xid.
    Xids,
    MessageIds(Box<Channel>),
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    xid: u32,
    in_flight: bool,
}

impl Calls {
    /// At most `slots_max` calls in flight, a power of two. `depth` is the usual number.
    pub(crate) fn new(slots_max: usize, depth: usize) -> Self {
        debug_assert!(slots_max.is_power_of_two(), "the bits of an xid are divided");
        let (payloads, slots, numbering) = (Vec::new(), Vec::new(), Numbering::Xids);
        Self { outbox: Outbox::new(depth), payloads, in_flight: 0, numbering, error: None, slots, slots_max }
    }

    pub(crate) fn with_channel(self, channel: Channel) -> Self {
        Self { numbering: Numbering::MessageIds(Box::new(channel)), ..self }
    }

    /// `None` if the xid's low bits are exhausted.
    pub(crate) fn add_slot(&mut self) -> Option<usize> {
        let slot = self.slots.len();
        if slot == self.slots_max {
            return None;
        }
        // Random high bits: see `first_xid`.
        let xid = first_xid() & !(self.step() - 1) | u32::try_from(slot).ok()?;
        self.slots.push(Slot { xid, in_flight: false });
        Some(slot)
    }

    fn step(&self) -> u32 {
        u32::try_from(self.slots_max).unwrap_or(1 << 31)
    }

    /// `template` contains a record mark, an xid, and the bytes that all such calls share.
    #[inline]
    pub(crate) fn begin(&mut self, template: &[u8]) -> usize {
        self.outbox.begin(template)
    }

    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.outbox.push(bytes);
    }

    #[inline]
    pub(crate) fn patch(&mut self, at: usize, bytes: &[u8]) {
        self.outbox.patch(at, bytes);
    }

    #[inline]
    pub(crate) fn encode_with(&mut self, encode: impl FnOnce(&mut Writer<'_>)) {
        self.outbox.encode_with(encode);
    }

    /// Ends the call that began at `start`; the call is then in flight in `slot`. `payload` and `tail`
    /// follow.
    #[inline]
    pub(crate) fn finish(&mut self, start: usize, slot: usize, payload: Option<(usize, u32)>, tail: &[u8]) {
        let step = self.step();
        let slot = &mut self.slots[slot];
        slot.xid = slot.xid.wrapping_add(step);
        slot.in_flight = true;
        self.in_flight += 1;
        self.outbox.finish(start, slot.xid, payload, tail);
    }

    #[cfg(test)]
    pub(crate) fn unsent(&self) -> Vec<u8> {
        self.outbox.unsent(&self.payloads)
    }

    /// Adds a call over SMB: requests in one message, in flight in `slot`. `payload` is the data of the last
    /// request. The caller must have checked the credits by [`Channel::affords`]. Errors appear at the next
    /// send.
    #[inline]
    pub(crate) fn send(&mut self, slot: usize, requests: &[Request<'_>], payload: Option<(usize, u32)>) {
        let Numbering::MessageIds(channel) = &mut self.numbering else { return };
        self.in_flight += 1;
        let data = payload.map(|(slot, length)| &self.payloads[slot].bytes()[..length as usize]);
        let behind = payload.filter(|_| channel.sends_data_separately());
        let wrong = &mut self.error;
        self.outbox.push_message(behind, |out| {
            if let Err(error) = channel.push(requests, data, slot, out) {
                wrong.get_or_insert(error.into());
            }
        });
    }

    #[inline]
    pub(crate) fn channel(&self) -> Option<&Channel> {
        match &self.numbering {
            Numbering::Xids => None,
            Numbering::MessageIds(channel) => Some(channel),
        }
    }

    #[inline]
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Returns the slot of the answered call and the decrypted reply. `None` if another response follows.
    #[inline]
    pub(super) fn take_reply<'b>(&mut self, bytes: &'b mut [u8]) -> Result<Option<(usize, &'b [u8])>, Error> {
        match &mut self.numbering {
            Numbering::Xids => {
                let xid = xdr::Reader::new(bytes).u32()?;
                self.answered(xid).map(|slot| Some((slot, &*bytes)))
            }
            Numbering::MessageIds(channel) => {
                let answered = channel.take_reply(bytes)?;
                self.in_flight -= usize::from(answered.is_some());
                Ok(answered)
            }
        }
    }

    /// Fails if no call is in flight under `xid`.
    #[inline]
    fn answered(&mut self, xid: u32) -> Result<usize, Error> {
        let index = xid as usize % self.slots_max;
        match self.slots.get_mut(index) {
            Some(slot) if slot.in_flight && slot.xid == xid => slot.in_flight = false,
            Some(_) | None => {
                return Err(Error::Protocol(format!("a reply to call {xid:#010x}, which is not in flight")));
            }
        }
        self.in_flight -= 1;
        Ok(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reply_finds_its_slot_once() {
        let mut calls = Calls::new(4, 4);
        let slots: Vec<_> = std::iter::from_fn(|| calls.add_slot()).collect();
        assert_eq!(slots, [0, 1, 2, 3]);
        for slot in [2, 2, 0] {
            let start = calls.begin(&[0; 8]);
            calls.finish(start, slot, None, &[]);
            let xid = calls.slots[slot].xid;
            assert_eq!((xid as usize % 4, calls.in_flight), (slot, 1));
            assert_eq!(calls.answered(xid).unwrap(), slot);
            assert!(calls.answered(xid).unwrap_err().to_string().contains("not in flight"));
            assert!(calls.answered(xid.wrapping_add(4)).is_err(), "not yet sent");
        }
        assert_eq!(calls.in_flight, 0);
    }
}
