//! A session whose server is not started: every request is answered with the reason, so that the client learns it from an answer
//! and not from a process that is gone. Nothing else is answered, and nothing is started.

use std::future::poll_fn;
use std::io::{self, IoSlice};

use callgate_core::read::{ClientMessage, read_client};
use callgate_core::refusal::{Reason, not_started, refused_frame};
use callgate_stdio::frames::{Frames, Piece};
use callgate_stdio::pipes::{Sink, Source};

use crate::Error;

/// Answers every request of the client with `reason`, until it closes its side.
pub fn decline(reason: &Reason, frame_bytes_max: usize) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(Error::Setup)?;
    runtime.block_on(async {
        let client = Frames::new(Source::stdin().map_err(Error::Streams)?, frame_bytes_max);
        let answers = Sink::stdout().map_err(Error::Streams)?;
        // A client that is gone, in whatever way, has heard enough.
        answer(client, answers, reason).await.or(Ok(()))
    })
}

async fn answer(mut client: Frames, mut answers: Sink, reason: &Reason) -> io::Result<()> {
    while let Some(piece) = client.next_piece().await? {
        let Piece::Frame(frame) = piece else { continue };
        for answer in answers_to(&frame, reason) {
            write(&mut answers, &answer).await?;
        }
    }
    Ok(())
}

fn answers_to(frame: &[u8], reason: &Reason) -> Vec<Vec<u8>> {
    match read_client(frame) {
        Ok(ClientMessage::Request(request)) => vec![not_started(request.id.raw, reason)],
        Ok(ClientMessage::Call(call)) => vec![not_started(call.id.raw, reason)],
        Ok(ClientMessage::Batch(ids)) => ids.iter().map(|id| not_started(id.raw, reason)).collect(),
        Ok(ClientMessage::Notification(_) | ClientMessage::Response(_) | ClientMessage::Blank) => Vec::new(),
        Err(unreadable) => {
            unreadable.answer.iter().map(|id| refused_frame(id, unreadable.code, &unreadable.detail)).collect()
        }
    }
}

async fn write(answers: &mut Sink, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = poll_fn(|context| answers.poll_write(context, &[IoSlice::new(bytes)])).await?;
        bytes = bytes.get(written..).unwrap_or_default();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use callgate_core::code::Code;
    use callgate_core::verdict::Retry;

    use super::*;

    #[test]
    fn every_request_is_answered_and_nothing_else() {
        let reason = Reason::of(Code::CredentialUnavailable, "no bus", Retry::Later);
        let answers = |frame: &str| -> Vec<serde_json::Value> {
            let answers = answers_to(format!("{frame}\n").as_bytes(), &reason);
            answers.iter().map(|answer| serde_json::from_slice(answer).unwrap()).collect()
        };
        let initialize = answers(r#"{"jsonrpc":"2.0","id":"a","method":"initialize","params":{}}"#);
        assert_eq!(initialize.len(), 1);
        assert_eq!(initialize[0]["id"], "a");
        assert_eq!(initialize[0]["error"]["code"], callgate_core::refusal::SERVER_NOT_STARTED);
        assert_eq!(initialize[0]["error"]["data"]["code"], "credential-unavailable");
        let call = answers(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x"}}"#);
        assert_eq!(call[0]["id"], 7);
        assert!(answers(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).is_empty());
        assert_eq!(answers(r#"{"jsonrpc":"2.0","id":3}"#)[0]["error"]["code"], -32_600);
    }
}
