//! The decision: what may be forwarded, and what is written about it.
//!
//! Values in, values out. This crate reads no clock, file, socket, environment or random source; what it needs of the
//! world comes in through the ports in [`port`]. It must never hold a path on which a `tools/call` goes on without a
//! committed decision: the only value that releases a call is a [`permit::Permit`].
#![forbid(unsafe_code)]

pub mod agent;
pub mod budget;
pub mod call;
pub mod canonical;
pub mod charge;
pub mod code;
pub mod counters;
pub mod decide;
pub mod digest;
pub mod entry;
pub mod escape;
pub mod evaluate;
pub mod evidence;
pub mod grant;
pub mod identity;
pub mod interpreter;
mod json;
pub mod permit;
pub mod plugin;
pub mod policy;
pub mod port;
pub mod read;
pub mod refusal;
pub mod rule;
pub mod secret;
pub mod server;
pub mod settle;
pub mod verdict;
