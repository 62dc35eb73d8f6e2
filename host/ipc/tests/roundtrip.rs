//! Messages come out as they went in, however the bytes arrive; bytes that are no message are an error, never a panic.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use callgate_core::digest::Digest;
use callgate_core::entry::{Outcome, Side};
use callgate_core::identity::SessionId;
use callgate_ipc::frame::{self, HEAD_BYTES_MAX, MESSAGE_BYTES_MAX, Malformed};
use callgate_ipc::message::{Anomaly, CallOutcome, Close, Decide, FromRelay, Greeting, Hello, Open, Purpose};
use proptest::prelude::*;

fn decide() -> impl Strategy<Value = FromRelay> {
    (any::<u64>(), ".*", ".*", proptest::option::of(".*"), ".{0,2000}").prop_map(
        |(sequence, tool, client, protocol_version, arguments)| {
            FromRelay::Decide(Decide {
                sequence,
                frame: Digest::of(tool.as_bytes()),
                request_id: "1".to_owned(),
                tool,
                client,
                protocol_version,
                listed: None,
                arguments,
            })
        },
    )
}

fn message() -> impl Strategy<Value = FromRelay> {
    prop_oneof![
        decide(),
        any::<[u8; 16]>().prop_map(|bits| FromRelay::Open(Open {
            session: SessionId::from_random(bits),
            server: "fs".parse().unwrap(),
            command: vec!["npx".to_owned(), "-y".to_owned()],
            claim: None,
            resumed: false,
            registered: None,
        })),
        any::<u64>().prop_map(|decision| FromRelay::Outcome(CallOutcome {
            decision,
            outcome: Outcome::Ok,
            took_ms: Some(decision)
        })),
        ".*".prop_map(|detail| FromRelay::Anomaly(Anomaly {
            from: Side::Client,
            code: callgate_core::code::Code::RepeatedKey,
            detail,
            frame: None,
            bytes: 1,
        })),
        any::<u64>().prop_map(|lost_events| FromRelay::Close(Close { how: "client-closed".to_owned(), lost_events })),
    ]
}

proptest! {
    #[test]
    fn messages_come_out_as_they_went_in(messages in proptest::collection::vec(message(), 1..8), chunk in 1_usize..64) {
        let mut bytes = Vec::new();
        for message in &messages {
            frame::encode(message, &mut bytes).unwrap();
        }
        let (mut arrived, mut decoded) = (Vec::new(), Vec::new());
        for part in bytes.chunks(chunk) {
            arrived.extend_from_slice(part);
            while let Some((message, taken)) = frame::decode::<FromRelay>(&arrived).unwrap() {
                arrived.drain(..taken);
                decoded.push(message);
            }
        }
        prop_assert!(arrived.is_empty());
        prop_assert_eq!(decoded, messages);
    }

    #[test]
    fn other_bytes_are_an_error_or_not_yet_a_message(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
        frame::decode::<FromRelay>(&bytes).ok();
        frame::decode::<Greeting>(&bytes).ok();
    }
}

#[test]
fn a_length_beyond_its_bound_is_refused_before_anything_is_kept() {
    let too_long = u32::try_from(MESSAGE_BYTES_MAX + 1).unwrap().to_be_bytes();
    assert!(matches!(frame::decode::<Hello>(&too_long), Err(Malformed::TooLong { .. })));
    let mut head_too_long = 100_u32.to_be_bytes().to_vec();
    head_too_long.extend(u32::try_from(HEAD_BYTES_MAX + 1).unwrap().to_be_bytes());
    head_too_long.extend([0; 96]);
    assert!(matches!(frame::decode::<Hello>(&head_too_long), Err(Malformed::TooLong { .. })));
}

#[test]
fn a_head_that_does_not_fit_its_message_is_refused() {
    for (all, head) in [(4_u32, 1_u32), (3, 0), (0, 0)] {
        let mut bytes = all.to_be_bytes().to_vec();
        bytes.extend(head.to_be_bytes());
        bytes.truncate(4 + usize::try_from(all).unwrap());
        assert!(matches!(frame::decode::<Hello>(&bytes), Err(Malformed::HeadOutside)), "{all} {head}");
    }
}

#[test]
fn a_tail_where_none_belongs_is_refused() {
    let mut bytes = Vec::new();
    frame::encode(&Hello { build: "b".to_owned(), purpose: Purpose::Relay }, &mut bytes).unwrap();
    bytes.push(b'x');
    let all = u32::try_from(bytes.len() - 4).unwrap().to_be_bytes();
    bytes[..4].copy_from_slice(&all);
    assert!(matches!(frame::decode::<Hello>(&bytes), Err(Malformed::Tail(_))));
}
