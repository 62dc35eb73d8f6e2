//! The bytes of one message: two big-endian 32-bit lengths, a JSON head, and the raw bytes that go with it.
//!
//! ```text
//! u32  length of all that follows
//! u32  length of the head
//! head JSON
//! tail raw bytes: a call's arguments, never escaped or copied into JSON
//! ```

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The longest message, bytes: a frame of the largest size a relay may be set to, and its head.
pub const MESSAGE_BYTES_MAX: usize = 72 * 1024 * 1024;
/// The longest head, bytes.
pub const HEAD_BYTES_MAX: usize = 1024 * 1024;
const LENGTH_BYTES: usize = 4;

/// Bytes that are no message.
#[derive(Debug, thiserror::Error)]
pub enum Malformed {
    /// A length is beyond its bound.
    #[error("a message of {bytes} bytes, more than the {bytes_max} there may be")]
    TooLong {
        /// What it says.
        bytes: usize,
        /// What it may be.
        bytes_max: usize,
    },
    /// The head's length does not fit the message's.
    #[error("the head does not fit into its message")]
    HeadOutside,
    /// The head is not what was expected.
    #[error("the head cannot be read: {0}")]
    Head(#[from] serde_json::Error),
    /// The tail is not what the head needs.
    #[error("the tail is not what its head needs: {0}")]
    Tail(&'static str),
}

/// A value that travels as one message: itself as the JSON head, and what its head leaves out as the tail.
pub trait Message: Serialize + DeserializeOwned {
    /// What travels raw.
    fn tail(&self) -> &[u8] {
        &[]
    }

    /// Puts a received tail where it belongs. A value that has no tail refuses one.
    fn attach(self, tail: &[u8]) -> Result<Self, Malformed> {
        if tail.is_empty() { Ok(self) } else { Err(Malformed::Tail("it has none")) }
    }
}

/// Appends a message to `out`.
pub fn encode<M: Message>(message: &M, out: &mut Vec<u8>) -> Result<(), Malformed> {
    let start = out.len();
    out.extend_from_slice(&[0; 2 * LENGTH_BYTES]);
    serde_json::to_writer(&mut *out, message)?;
    let head_bytes = out.len() - start - 2 * LENGTH_BYTES;
    out.extend_from_slice(message.tail());
    let bytes = out.len() - start - LENGTH_BYTES;
    let lengths = length(bytes, MESSAGE_BYTES_MAX).and_then(|all| Ok((all, length(head_bytes, HEAD_BYTES_MAX)?)));
    let (all, head) = match lengths {
        Ok(lengths) => lengths,
        Err(error) => {
            out.truncate(start);
            return Err(error);
        }
    };
    out[start..start + LENGTH_BYTES].copy_from_slice(&all);
    out[start + LENGTH_BYTES..start + 2 * LENGTH_BYTES].copy_from_slice(&head);
    Ok(())
}

fn length(bytes: usize, bytes_max: usize) -> Result<[u8; LENGTH_BYTES], Malformed> {
    match u32::try_from(bytes) {
        Ok(length) if bytes <= bytes_max => Ok(length.to_be_bytes()),
        Ok(_) | Err(_) => Err(Malformed::TooLong { bytes, bytes_max }),
    }
}

/// Takes the first message from `bytes` and tells how many bytes it took; `None` when it has not wholly arrived.
pub fn decode<M: Message>(bytes: &[u8]) -> Result<Option<(M, usize)>, Malformed> {
    let Some((all, rest)) = take_length(bytes, MESSAGE_BYTES_MAX)? else { return Ok(None) };
    let Some(body) = rest.get(..all) else { return Ok(None) };
    let (head_bytes, body) = take_length(body, HEAD_BYTES_MAX)?.ok_or(Malformed::HeadOutside)?;
    let (head, tail) = body.split_at_checked(head_bytes).ok_or(Malformed::HeadOutside)?;
    let message = serde_json::from_slice::<M>(head)?.attach(tail)?;
    Ok(Some((message, LENGTH_BYTES + all)))
}

fn take_length(bytes: &[u8], bytes_max: usize) -> Result<Option<(usize, &[u8])>, Malformed> {
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let bytes = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    if bytes > bytes_max {
        return Err(Malformed::TooLong { bytes, bytes_max });
    }
    Ok(Some((bytes, rest)))
}
