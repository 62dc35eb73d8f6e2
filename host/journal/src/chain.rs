//! The chain's bytes: what is hashed of an entry, and how entries are linked. Must never look inside a body.
//!
//! docs/reference/journal-format.md is normative; a test reads the vectors there and holds this module to them.

use callgate_core::digest::Digest;
use callgate_core::entry::Kind;

use crate::install::InstallId;

/// Keeps an entry's hash apart from every other SHA-256 over the same bytes; the number is the format's.
const ENTRY_DOMAIN: &[u8] = b"callgate-entry/1";
/// The same for the hash that the chain starts from.
const CHAIN_DOMAIN: &[u8] = b"callgate-chain/1";

// First bytes that keep the three hashes apart. 0x01 is left to the inner nodes of a Merkle tree over the same leaves
// (RFC 6962), which checkpoints may want one day.
const LEAF: u8 = 0x00;
const LINK: u8 = 0x02;
const GENESIS: u8 = 0x03;

/// What the first entry of an install's journal is linked to.
pub(crate) fn genesis(install: &InstallId) -> Digest {
    let id = install.as_str().as_bytes();
    Digest::of_parts(&[&[GENESIS], CHAIN_DOMAIN, &length(id).to_be_bytes(), id])
}

/// The hash of one entry by itself.
pub(crate) fn leaf(seq: u64, time_ms: i64, kind: Kind, body: &[u8]) -> Digest {
    let kind = kind.as_str().as_bytes();
    let kind_length = u8::try_from(kind.len()).expect("the text of a kind is a short word");
    Digest::of_parts(&[
        &[LEAF],
        ENTRY_DOMAIN,
        &seq.to_be_bytes(),
        &time_ms.to_be_bytes(),
        &[kind_length],
        kind,
        &length(body).to_be_bytes(),
        body,
    ])
}

/// The chain's hash after an entry: all entries up to it, in order.
pub(crate) fn link(previous: &Digest, leaf: &Digest) -> Digest {
    Digest::of_parts(&[&[LINK], previous.as_bytes(), leaf.as_bytes()])
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).expect("a length in memory fits 64 bits")
}
