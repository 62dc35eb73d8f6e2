//! Everything that can happen on a relay, played through without a process, a socket or a clock.

mod any_order;

use std::io::IoSlice;

use callgate_core::code::Code;
use callgate_core::entry::{Outcome, Side};
use callgate_core::permit::Binding;
use callgate_core::refusal::Reason;
use callgate_core::verdict::Retry;
use callgate_ipc::frame::{decode, encode};
use callgate_ipc::message::{Anomaly, CallOutcome, Decide, Greeting, Hello, Refused, ToRelay};
use callgate_stdio::frames::Piece;
use serde_json::{Value, json};

use super::client::CALLS_WAITING_MAX;
use super::refusals::ANSWERS_MAX;
use super::*;
use crate::events::{EVENTS_MAX, RIDE_WAIT};
use crate::link::STARTING_MAX;
use crate::testing::call_frame;
use crate::to_server::FRAMES_PER_WRITE;

const CONNECTION: u64 = 77;
const DEADLINE: Duration = Duration::from_secs(2);
const FRAME_BYTES_MAX: usize = 64 * 1024;
const PING: &str = "{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"ping\"}\n";

/// A session and the time on its clock; the test is client, server and daemon.
struct Play {
    session: Session,
    now: Instant,
}

impl Play {
    fn new() -> Self {
        let terms = Terms {
            session: SessionId::from_random([7; 16]),
            server: "fs".parse().unwrap(),
            command: vec!["server".to_owned()],
            registered: None,
            claim: None,
            build: "1".to_owned(),
            frame_bytes_max: FRAME_BYTES_MAX,
            decision_deadline: DEADLINE,
        };
        let now = Instant::now();
        Self { session: Session::new(terms, now), now }
    }

    /// With the daemon's session open.
    fn open() -> Self {
        let mut play = Self::new();
        play.connect(CONNECTION);
        play.told();
        play
    }

    fn connect(&mut self, connection: u64) {
        self.greet(&Greeting::Welcome { connection });
        self.daemon(&ToRelay::Opened);
    }

    fn greet(&mut self, greeting: &Greeting) {
        if !self.session.link.is_connected() {
            self.session.reached_daemon(self.now);
        }
        encode(greeting, self.session.mail.room()).unwrap();
        self.session.read_daemon(self.now);
    }

    fn client(&mut self, lines: &str) {
        for line in lines.split_inclusive('\n') {
            self.session.client_sent(Piece::Frame(line.as_bytes().to_vec()), self.now);
        }
    }

    fn call(&mut self, id: u64) -> String {
        let frame = call_frame(id, "write_file", r#"{"path":"/x"}"#);
        self.client(&frame);
        frame
    }

    fn server(&mut self, lines: &str) {
        self.session.to_client.room().extend_from_slice(lines.as_bytes());
        self.session.to_client.took_in();
        self.session.read_server(self.now);
    }

    fn daemon(&mut self, message: &ToRelay) {
        encode(message, self.session.mail.room()).unwrap();
        self.session.read_daemon(self.now);
    }

    /// Permits call `sequence`, whose frame is `frame`, as journal entry 100 + `sequence`.
    fn permit(&mut self, sequence: u64, frame: &str) {
        self.daemon(&permitted(CONNECTION, sequence, frame));
    }

    fn deny(&mut self, sequence: u64) {
        self.daemon(&ToRelay::Refused(Refused { sequence, reason: denial(), entry: Some(100 + sequence) }));
    }

    /// Lets time pass in the steps in which the driver would be woken.
    fn wait(&mut self, duration: Duration) {
        let end = self.now + duration;
        while let Some(due) = self.session.due().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.session.pass_time(self.now);
            // A driver that cannot connect says so at once.
            if self.session.link.dial_is_due(self.now) {
                self.session.missed_daemon("no socket".to_owned(), self.now);
            }
        }
        self.now = end;
        self.session.pass_time(self.now);
    }

    /// What the server gets.
    fn server_gets(&mut self) -> String {
        let mut all = Vec::new();
        while self.session.to_server.bytes() > 0 {
            let mut slices = [IoSlice::new(&[]); FRAMES_PER_WRITE];
            let filled = self.session.to_server.gather(&mut slices);
            let written: Vec<u8> = slices[..filled].iter().flat_map(|slice| slice.iter().copied()).collect();
            self.session.to_server.wrote(written.len());
            all.extend(written);
        }
        String::from_utf8(all).unwrap()
    }

    /// What the client gets.
    fn client_gets(&mut self) -> String {
        let mut all = Vec::new();
        while !self.session.to_client.next_chunk().is_empty() {
            let chunk = self.session.to_client.next_chunk().to_vec();
            self.session.to_client.wrote(chunk.len());
            all.extend(chunk);
        }
        String::from_utf8(all).unwrap()
    }

    /// The answers the client gets: their ids, and the codes of ours.
    fn answers(&mut self) -> Vec<(Value, Option<String>)> {
        let text = self.client_gets();
        let messages = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let code = |message: &Value| {
            let meta = message.pointer("/result/_meta/dev.callgate~1decision/code");
            meta.or(message.pointer("/error/data/code")).and_then(Value::as_str).map(str::to_owned)
        };
        messages.map(|message| (message["id"].clone(), code(&message))).collect()
    }

    /// What the daemon gets, events that were held back included.
    fn told(&mut self) -> Vec<FromRelay> {
        self.wait(RIDE_WAIT);
        let mut bytes = self.session.mail.unsent();
        let mut told = Vec::new();
        while !bytes.is_empty() {
            if let Ok(Some((Hello { .. }, length))) = decode(bytes) {
                bytes = &bytes[length..];
                continue;
            }
            let (message, length) = decode(bytes).unwrap().unwrap();
            bytes = &bytes[length..];
            told.push(message);
        }
        let sent = self.session.mail.unsent().len();
        self.session.mail.sent(sent);
        told
    }

    fn outcomes(&mut self) -> Vec<(u64, Outcome)> {
        let outcome = |event| match event {
            FromRelay::Outcome(CallOutcome { decision, outcome, .. }) => Some((decision, outcome)),
            _ => None,
        };
        self.told().into_iter().filter_map(outcome).collect()
    }

    fn anomalies(&mut self) -> Vec<(Side, Code)> {
        let anomaly = |event| match event {
            FromRelay::Anomaly(Anomaly { from, code, .. }) => Some((from, code)),
            _ => None,
        };
        self.told().into_iter().filter_map(anomaly).collect()
    }

    fn decides(&mut self) -> Vec<Decide> {
        let decide = |event| match event {
            FromRelay::Decide(decide) => Some(decide),
            _ => None,
        };
        self.told().into_iter().filter_map(decide).collect()
    }
}

fn permitted(connection: u64, sequence: u64, frame: &str) -> ToRelay {
    let frame = callgate_core::digest::Digest::of(frame.as_bytes());
    let binding = Binding { connection, sequence, frame };
    ToRelay::Permitted(serde_json::from_value(json!({ "binding": binding, "entry": 100 + sequence })).unwrap())
}

fn denial() -> Reason {
    Reason {
        policy_code: Some("deny".to_owned()),
        plugin: Some("rules".to_owned()),
        ..Reason::of(Code::Policy, "denied by a rule", Retry::Never)
    }
}

fn refusal(id: u64, code: &str) -> (Value, Option<String>) {
    (json!(id), Some(code.to_owned()))
}

fn cancel(id: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{id}}}}}\n")
}

fn answer(id: u64) -> String {
    format!("{{\"result\":{{\"content\":[]}},\"jsonrpc\":\"2.0\",\"id\":{id}}}\n")
}

// What passes.

#[test]
fn frames_without_a_call_pass_byte_for_byte_in_order() {
    let mut play = Play::new();
    let frames = concat!(
        " {\"id\":1, \"jsonrpc\":\"2.0\",\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\"}}\r\n",
        "\n",
        "\r\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications\\/initialized\"}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"roots\":[]}}\n",
        "[{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"},{\"jsonrpc\":\"2.0\",\"method\":\"x\"}]\n",
        "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"TOOLS/CALL\",\"params\":{\"method\":\"tools/call\"}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"nobody/knows\"}\n",
    );
    play.client(frames);
    assert_eq!(play.server_gets(), frames);
    assert_eq!(play.client_gets(), "");
}

#[test]
fn a_permitted_call_goes_on_as_the_bytes_that_arrived() {
    let mut play = Play::open();
    let frame = "  {\"id\" : 1e0,\"params\":{\"arguments\":{\"n\":9007199254740993 },\"name\":\"\\u0061\"},\"method\":\"tools\\/call\",\"jsonrpc\":\"2.0\"} \r\n";
    play.client(frame);
    assert_eq!(play.server_gets(), "", "not before its permit");
    let decides = play.decides();
    assert_eq!(decides.len(), 1);
    let decide = &decides[0];
    assert_eq!((decide.sequence, decide.tool.as_str(), decide.request_id.as_str()), (1, "a", "1e0"));
    assert_eq!(decide.arguments, "{\"n\":9007199254740993 }");
    play.permit(1, frame);
    assert_eq!(play.server_gets(), frame);
    play.now += Duration::from_millis(1250);
    play.server(&answer(1));
    assert_eq!(play.client_gets(), answer(1));
    let answered = CallOutcome { decision: 101, outcome: Outcome::Ok, took_ms: Some(1250) };
    assert_eq!(play.told(), [FromRelay::Outcome(answered)]);
}

#[test]
fn the_decision_is_asked_with_what_is_known_of_client_revision_and_tool() {
    let mut play = Play::open();
    play.client("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\",\"clientInfo\":{\"name\":\"claude\"}}}\n");
    play.server("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"2025-06-18\"}}\n");
    play.client("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\"}\n");
    play.server("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"tools\":[{\"name\":\"write_file\",\"annotations\":{\"destructiveHint\":true}}]}}\n");
    play.call(3);
    let decide = play.decides().remove(0);
    assert_eq!((decide.client.as_str(), decide.protocol_version.as_deref()), ("claude", Some("2025-06-18")));
    assert_eq!(decide.listed.unwrap().annotations.unwrap().destructive, Some(true));
    play.client("{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"tools/list\"}\n");
    play.server("{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{\"tools\":[]}}\n");
    play.call(5);
    assert_eq!(play.decides().remove(0).listed, None);
}

#[test]
fn server_frames_pass_untouched_whatever_they_are_and_what_is_odd_is_told() {
    let mut play = Play::open();
    let frames = "log line\n{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"roots/list\"}\n\u{feff}{}\n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n";
    play.server(frames);
    assert_eq!(play.client_gets(), frames);
    assert_eq!(play.anomalies().iter().map(|(from, _)| *from).collect::<Vec<_>>(), [Side::Server, Side::Server]);
}

// Order.

#[test]
fn a_call_behind_an_undecided_one_waits_for_it() {
    let mut play = Play::open();
    let first = play.call(1);
    let second = play.call(2);
    play.permit(2, &second);
    assert_eq!(play.server_gets(), "", "decisions come in any order, calls do not");
    play.permit(1, &first);
    assert_eq!(play.server_gets(), first + &second);
}

#[test]
fn messages_pass_a_call_that_is_not_decided() {
    let mut play = Play::open();
    let released = play.call(1);
    play.permit(1, &released);
    assert_eq!(play.server_gets(), released);
    let undecided = play.call(2);
    let permitted = play.call(3);
    play.permit(3, &permitted);
    let passing = cancel("1")
        + PING
        + "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"roots\":[]}}\n"
        + "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tools/list\"}\n\n";
    play.client(&passing);
    assert_eq!(play.server_gets(), passing);
    play.permit(2, &undecided);
    assert_eq!(play.server_gets(), undecided + &permitted);
}

#[test]
fn messages_pass_while_a_daemon_is_starting_for_the_first_time() {
    let mut play = Play::new();
    play.call(1);
    play.greet(&Greeting::Starting);
    play.client(PING);
    assert_eq!(play.server_gets(), PING);
}

#[test]
fn the_handshake_and_a_batch_keep_their_place_among_calls_and_what_comes_behind_them_stays_there() {
    for keeping in [
        "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"initialize\",\"params\":{}}\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications\\/initialized\"}\n",
        "[{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}]\n",
    ] {
        let mut play = Play::open();
        let first = play.call(1);
        play.client(keeping);
        play.client(PING);
        let second = play.call(2);
        play.permit(2, &second);
        assert_eq!(play.server_gets(), "", "{keeping}");
        play.permit(1, &first);
        assert_eq!(play.server_gets(), first + keeping + PING + &second);
        play.call(3);
        play.client(PING);
        assert_eq!(play.server_gets(), PING, "once they have gone, messages pass again");
    }
}

#[test]
fn a_refused_call_is_answered_at_once_and_what_stood_behind_it_moves_up() {
    let mut play = Play::open();
    let first = play.call(1);
    play.call(2);
    play.client(PING);
    play.deny(2);
    let third = play.call(3);
    play.permit(3, &third);
    assert_eq!(play.answers(), [refusal(2, "rules/deny")], "it overtakes the call before it");
    assert_eq!(play.server_gets(), PING);
    play.permit(1, &first);
    assert_eq!(play.server_gets(), first + &third);
    assert_eq!(play.anomalies(), [], "the daemon journaled it");
}

#[test]
fn a_refusal_has_the_shape_of_its_dialect_and_echoes_the_raw_id() {
    let mut play = Play::open();
    play.client(
        "{\"jsonrpc\":\"2.0\",\"id\":9007199254740993,\"method\":\"tools/call\",\"params\":{\"name\":\"a\"}}\n",
    );
    play.client(
        "{\"jsonrpc\":\"2.0\",\"id\":\"\\u0041\",\"method\":\"tools/call\",\"params\":{\"name\":\"a\",\"task\":{}}}\n",
    );
    play.client("{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/call\",\"params\":{\"name\":\"a\",\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}}}\n");
    (1..=3).for_each(|sequence| play.deny(sequence));
    let text = play.client_gets();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains("\"id\":9007199254740993,\"result\":"), "{}", lines[0]);
    assert!(lines[1].contains("\"id\":\"\\u0041\",\"error\":"), "{}", lines[1]);
    let modern: Value = serde_json::from_str(lines[2]).unwrap();
    assert_eq!((&modern["result"]["isError"], &modern["result"]["resultType"]), (&json!(true), &json!("complete")));
    assert_eq!(modern["result"]["_meta"]["dev.callgate/decision"]["entry"], 103);
}

// Cancelling.

#[test]
fn a_call_cancelled_before_its_decision_is_never_forwarded_or_answered_and_its_permit_comes_to_nothing() {
    let mut play = Play::open();
    let frame = play.call(1);
    play.client(&cancel("1").repeat(2));
    play.client(PING);
    assert_eq!(play.server_gets(), cancel("1") + PING, "the second one cancels nothing that the relay knows of");
    assert_eq!(play.anomalies(), [(Side::Client, Code::Withdrawn)], "told of once");
    play.permit(1, &frame);
    assert_eq!((play.server_gets().as_str(), play.client_gets().as_str()), ("", ""));
    assert_eq!(play.outcomes(), [(101, Outcome::Error)]);
}

#[test]
fn a_call_cancelled_and_then_denied_is_not_answered() {
    let mut play = Play::open();
    play.call(1);
    play.client(&cancel("1.0"));
    play.deny(1);
    assert_eq!((play.server_gets().as_str(), play.client_gets().as_str()), ("", ""));
    assert_eq!(play.anomalies(), [(Side::Client, Code::Withdrawn)]);
}

#[test]
fn a_permitted_call_that_waits_for_its_turn_can_still_be_cancelled() {
    let mut play = Play::open();
    let first = play.call(1);
    let second = play.call(2);
    play.permit(2, &second);
    play.told();
    play.client(&cancel("2"));
    play.permit(1, &first);
    assert_eq!((play.server_gets(), play.client_gets().as_str()), (first, ""));
    let told = play.told();
    let failed = FromRelay::Outcome(CallOutcome { decision: 102, outcome: Outcome::Error, took_ms: None });
    assert!(
        matches!(&told[..], [FromRelay::Anomaly(Anomaly { code: Code::Withdrawn, .. }), outcome] if *outcome == failed)
    );
}

#[test]
fn a_released_call_is_cancelled_by_the_server_and_a_late_answer_passes() {
    let mut play = Play::open();
    let frame = play.call(1);
    play.permit(1, &frame);
    play.client(&cancel("1"));
    assert_eq!(play.server_gets(), frame + &cancel("1"));
    play.server(&answer(1));
    assert_eq!(play.client_gets(), answer(1));
    assert_eq!(play.outcomes(), [(101, Outcome::Ok)]);
}

#[test]
fn a_call_cancelled_before_the_daemon_was_asked_is_told_of() {
    let mut play = Play::new();
    play.call(1);
    play.client(&cancel("1"));
    play.connect(CONNECTION);
    assert_eq!(play.anomalies(), [(Side::Client, Code::Withdrawn)]);
    assert_eq!((play.server_gets().as_str(), play.client_gets().as_str()), ("", ""));
}

// Ids.

#[test]
fn a_call_cannot_take_an_id_in_flight_under_any_spelling() {
    let mut play = Play::open();
    play.client("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/read\",\"params\":{\"uri\":\"x\"}}\n");
    let waiting = play.call(2);
    play.client("{\"jsonrpc\":\"2.0\",\"id\":\"1\",\"method\":\"tools/call\",\"params\":{\"name\":\"a\"}}\n");
    play.client("{\"jsonrpc\":\"2.0\",\"id\":2e0,\"method\":\"tools/call\",\"params\":{\"name\":\"a\"}}\n");
    let text = play.client_gets();
    let codes: Vec<_> =
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["error"]["code"].clone()).collect();
    assert_eq!(codes, [json!(-32600), json!(-32600)]);
    assert!(text.contains("\"id\":\"1\"") && text.contains("\"id\":2e0"), "{text}");
    let told = play.told();
    assert_eq!(told.iter().filter(|told| matches!(told, FromRelay::Decide(_))).count(), 1);
    play.permit(1, &waiting);
    assert!(play.server_gets().ends_with(&waiting), "the first one is untouched");
}

#[test]
fn another_request_may_take_an_id_in_flight_and_that_is_told() {
    let mut play = Play::open();
    let frame = play.call(1);
    let request = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
    play.client(request);
    play.permit(1, &frame);
    assert_eq!(play.server_gets(), request.to_owned() + &frame);
    assert_eq!(play.anomalies(), [(Side::Client, Code::IdInFlight)]);
    play.server(&answer(1).repeat(2));
    let told = play.told();
    assert!(
        matches!(told[..], [FromRelay::Outcome(CallOutcome { decision: 101, outcome: Outcome::Ok, .. })]),
        "{told:?}"
    );
}

#[test]
fn an_id_is_free_again_once_answered_refused_or_withdrawn() {
    let mut play = Play::open();
    let frame = play.call(1);
    play.permit(1, &frame);
    play.server(&answer(1));
    let frame = play.call(1);
    play.deny(2);
    play.call(1);
    play.client(&cancel("1"));
    play.call(1);
    play.permit(4, &frame);
    assert!(play.client_gets().contains("rules/deny"));
    assert_eq!(play.server_gets(), frame.repeat(2));
}

#[test]
fn a_batch_of_very_many_ids_in_flight_is_hashed_once() {
    let mut play = Play::open();
    let ping = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"},";
    let batch = format!("[{}{}]\n", ping.repeat(100_000), ping.trim_end_matches(','));
    let start = Instant::now();
    play.client(&batch);
    // Nothing is measured: hashed for each id, four megabytes take many minutes.
    assert!(start.elapsed() < Duration::from_secs(30));
    assert_eq!(play.server_gets(), batch);
    assert_eq!(play.anomalies().len(), EVENTS_MAX);
}

#[test]
fn the_servers_own_ids_are_not_the_clients() {
    let mut play = Play::open();
    let frame = play.call(1);
    play.permit(1, &frame);
    play.server_gets();
    play.server("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"sampling/createMessage\"}\n");
    let response = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n";
    play.client(response);
    assert_eq!(play.server_gets(), response);
    assert_eq!(play.outcomes(), []);
    play.server(&answer(1));
    assert_eq!(play.outcomes(), [(101, Outcome::Ok)]);
}

#[test]
fn an_answer_under_an_alias_counts_and_a_second_one_and_one_to_nothing_are_told() {
    let mut play = Play::open();
    let frame = play.call(1);
    play.permit(1, &frame);
    let alias = "{\"jsonrpc\":\"2.0\",\"id\":\"1\",\"error\":{\"code\":1,\"message\":\"\"}}\n";
    play.server(alias);
    assert_eq!(play.outcomes(), [(101, Outcome::Error)]);
    play.server(&(answer(1) + &answer(9)));
    assert_eq!(play.anomalies(), [(Side::Server, Code::UnexpectedAnswer); 2]);
    assert_eq!(play.client_gets(), alias.to_owned() + &answer(1) + &answer(9), "all of them pass");
}

#[test]
fn an_answer_to_a_call_that_the_server_was_not_given_settles_nothing() {
    let mut play = Play::open();
    let frame = play.call(1);
    play.server(&answer(1));
    assert_eq!(play.anomalies(), [(Side::Server, Code::UnexpectedAnswer)]);
    play.permit(1, &frame);
    assert_eq!(play.server_gets(), frame);
    play.server(&answer(1));
    assert_eq!(play.outcomes(), [(101, Outcome::Ok)]);
}

// Frames that are refused.

#[test]
fn an_unreadable_frame_goes_nowhere_is_answered_where_one_id_is_certain_and_always_told() {
    let cases = [
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"a\",\"name\":\"b\"}}\n", 1),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"result\":{}}\n", 1),
        ("{\"jsonrpc\":\"2.0\",\"method\":\"tools/call\",\"params\":{\"name\":\"a\"}}\n", 0),
        ("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n", 0),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r {}\n", 0),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"} {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\"}\n",
            0,
        ),
        ("nonsense\n", 0),
    ];
    for (frame, answers) in cases {
        let mut play = Play::open();
        play.client(frame);
        play.client(PING);
        assert_eq!(play.server_gets(), PING, "{frame}");
        assert_eq!(play.client_gets().lines().count(), answers, "{frame}");
        assert_eq!(play.anomalies().len(), 1, "{frame}");
    }
}

#[test]
fn a_batch_with_a_call_is_refused_whole_and_each_of_its_requests_is_answered() {
    let mut play = Play::open();
    play.client("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"},{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"a\"}},{\"jsonrpc\":\"2.0\",\"method\":\"x\"}]\n");
    assert_eq!(play.server_gets(), "");
    assert_eq!(play.answers(), [refusal(1, "batch-call"), refusal(2, "batch-call")]);
    assert_eq!(play.anomalies(), [(Side::Client, Code::BatchCall)]);
}

#[test]
fn a_batch_of_very_many_requests_is_not_answered_without_bound() {
    let mut play = Play::open();
    let pings: String = (0..2000)
        .flat_map(|id| ["{\"jsonrpc\":\"2.0\",\"id\":".to_owned(), id.to_string(), ",\"method\":\"ping\"},".to_owned()])
        .collect();
    play.client(&format!(
        "[{pings}{{\"jsonrpc\":\"2.0\",\"id\":9999,\"method\":\"tools/call\",\"params\":{{\"name\":\"a\"}}}}]\n"
    ));
    assert_eq!(play.client_gets().lines().count(), ANSWERS_MAX);
}

#[test]
fn a_frame_that_is_too_long_and_a_tail_without_a_line_feed_go_nowhere_and_are_told() {
    let mut play = Play::open();
    let call = call_frame(1, "a", "{}");
    play.session.client_sent(Piece::TooLong { bytes: 70_000 }, play.now);
    play.session.client_sent(Piece::Unterminated(call.trim_end().as_bytes().to_vec()), play.now);
    assert_eq!((play.server_gets().as_str(), play.client_gets().as_str()), ("", ""));
    assert_eq!(play.anomalies(), [(Side::Client, Code::FrameTooLong), (Side::Client, Code::Unterminated)]);
}

// The daemon.

#[test]
fn calls_wait_for_the_connection_and_are_asked_about_in_order_once_it_is_open() {
    let mut play = Play::new();
    let first = play.call(1);
    let second = play.call(2);
    play.greet(&Greeting::Welcome { connection: CONNECTION });
    assert_eq!(play.decides(), [], "not before the session is open");
    play.daemon(&ToRelay::Opened);
    let asked: Vec<_> = play.decides().into_iter().map(|decide| (decide.sequence, decide.request_id)).collect();
    assert_eq!(asked, [(1, "1".to_owned()), (2, "2".to_owned())]);
    play.permit(1, &first);
    play.permit(2, &second);
    assert_eq!(play.server_gets(), first + &second);
}

#[test]
fn without_a_daemon_the_rest_passes_and_every_call_is_refused_and_told_of_later() {
    let mut play = Play::new();
    play.call(1);
    play.client("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\"}\n");
    play.wait(DEADLINE);
    assert_eq!(play.answers(), [refusal(1, "daemon-unreachable")]);
    assert!(play.server_gets().contains("tools/list"));
    play.wait(Duration::from_millis(3100));
    assert_eq!(play.session.due(), None, "it is given up as long as nobody needs it");
    play.call(3);
    play.wait(Duration::ZERO);
    assert_eq!(play.answers(), [refusal(3, "daemon-unreachable")], "at once, as long as it is known");
    play.wait(Duration::from_secs(1));
    let frame = play.call(4);
    assert!(play.session.link.dial_is_due(play.now), "a later call tries again");
    play.connect(CONNECTION);
    assert_eq!(play.anomalies(), [(Side::Client, Code::DaemonUnreachable); 2]);
    play.permit(1, &frame);
    assert_eq!(play.server_gets(), frame);
}

#[test]
fn a_daemon_that_is_starting_is_waited_for_and_the_time_of_the_calls_begins_when_it_is_ready() {
    let mut play = Play::new();
    let frame = play.call(1);
    play.greet(&Greeting::Starting);
    play.wait(Duration::from_secs(9));
    assert_eq!(play.client_gets(), "");
    play.connect(CONNECTION);
    play.wait(Duration::from_secs(1));
    play.permit(1, &frame);
    assert_eq!(play.server_gets(), frame);

    let mut play = Play::new();
    play.call(1);
    play.greet(&Greeting::Starting);
    play.wait(STARTING_MAX);
    assert_eq!(play.answers(), [refusal(1, "daemon-slow")], "but not for ever");
}

#[test]
fn a_daemon_of_another_build_is_not_asked_and_the_refusal_names_the_remedy() {
    let mut play = Play::new();
    play.call(1);
    play.greet(&Greeting::OtherBuild { build: "2".to_owned() });
    let text = play.client_gets();
    assert!(text.contains("older-build") && text.contains("callgate daemon restart"), "{text}");
    play.call(2);
    assert_eq!(play.answers(), [refusal(2, "older-build")]);
}

#[test]
fn a_session_that_cannot_be_opened_refuses_every_call_for_that_reason() {
    let mut play = Play::new();
    play.call(1);
    play.greet(&Greeting::Welcome { connection: CONNECTION });
    play.daemon(&ToRelay::NotOpened(Reason::of(Code::JournalForeign, "the database was swapped", Retry::Never)));
    play.call(2);
    assert_eq!(play.answers(), [refusal(1, "journal-foreign"), refusal(2, "journal-foreign")]);
}

#[test]
fn a_session_is_resumed_when_the_answer_to_its_opening_was_lost() {
    let mut play = Play::new();
    play.call(1);
    play.greet(&Greeting::Welcome { connection: CONNECTION });
    assert!(matches!(&play.told()[0], FromRelay::Open(open) if !open.resumed));
    play.session.lost_daemon("closed", play.now);
    play.call(2);
    play.connect(CONNECTION + 1);
    // The first daemon may have written its start, so that a second start would be refused for good.
    assert!(matches!(&play.told()[0], FromRelay::Open(open) if open.resumed));
}

#[test]
fn a_decision_that_comes_too_late_finds_its_connection_gone_and_releases_nothing() {
    let mut play = Play::open();
    let frame = play.call(1);
    play.wait(Duration::from_millis(1500));
    let second = play.call(2);
    play.wait(Duration::from_millis(500));
    assert_eq!(play.answers(), [refusal(1, "daemon-slow"), refusal(2, "daemon-lost")]);
    assert!(!play.session.link.is_connected());
    play.connect(CONNECTION + 1);
    play.permit(1, &frame);
    assert_eq!(play.server_gets(), "");
    assert!(!play.session.link.is_connected(), "an answer to nothing ends the connection");
    drop(second);
}

#[test]
fn a_lost_connection_refuses_what_was_asked_and_nothing_is_asked_twice() {
    let mut play = Play::open();
    play.call(1);
    play.told();
    play.session.lost_daemon("closed", play.now);
    assert_eq!(play.answers(), [refusal(1, "daemon-lost")]);
    let frame = play.call(2);
    play.connect(CONNECTION);
    let told = play.told();
    assert!(
        matches!(&told[0], FromRelay::Open(open) if open.resumed && open.session == SessionId::from_random([7; 16]))
    );
    let asked: Vec<_> = told
        .iter()
        .filter_map(|told| match told {
            FromRelay::Decide(decide) => Some((decide.sequence, decide.request_id.as_str())),
            _ => None,
        })
        .collect();
    assert_eq!(asked, [(1, "2")], "sequences begin anew");
    play.permit(1, &frame);
    assert_eq!(play.server_gets(), frame);
}

#[test]
fn a_permit_for_another_connection_frame_or_call_releases_nothing_and_ends_the_connection() {
    let foreign = |frame: &str| {
        [permitted(CONNECTION + 1, 1, frame), permitted(CONNECTION, 1, "other"), permitted(CONNECTION, 5, frame)]
    };
    for which in 0..3 {
        let mut play = Play::open();
        let frame = play.call(1);
        play.daemon(&foreign(&frame)[which]);
        assert_eq!(play.server_gets(), "");
        assert_eq!(play.answers(), [refusal(1, "reply-mismatch")]);
        assert!(!play.session.link.is_connected());
    }
}

#[test]
fn a_permit_cannot_be_spent_twice() {
    let mut play = Play::open();
    let frame = play.call(1);
    play.permit(1, &frame);
    play.permit(1, &frame);
    assert_eq!(play.server_gets(), frame);
    assert!(!play.session.link.is_connected());
}

#[test]
fn bytes_that_are_no_message_end_the_connection() {
    let mut play = Play::open();
    play.call(1);
    play.session.mail.room().extend_from_slice(&[0, 0, 0, 8, 0, 0, 0, 4, b'n', b'o', b'p', b'e']);
    play.session.read_daemon(play.now);
    assert_eq!(play.answers(), [refusal(1, "reply-mismatch")]);
    assert!(!play.session.link.is_connected());
}

#[test]
fn a_call_the_daemon_refused_without_an_entry_is_told_as_an_anomaly() {
    let mut play = Play::open();
    play.call(1);
    let reason = Reason::of(Code::JournalFull, "the disk is full", Retry::Later);
    play.daemon(&ToRelay::Refused(Refused { sequence: 1, reason, entry: None }));
    assert_eq!(play.answers(), [refusal(1, "journal-full")]);
    assert_eq!(play.anomalies(), [(Side::Client, Code::JournalFull)]);
}

// Bounds.

#[test]
fn no_more_calls_wait_than_there_is_room_for() {
    let mut play = Play::open();
    let count = u64::try_from(CALLS_WAITING_MAX).unwrap();
    for id in 1..=count {
        assert!(play.session.takes_input());
        play.call(id);
    }
    assert!(!play.session.takes_input());
    play.deny(1);
    assert!(play.session.takes_input(), "a decision makes room");
    play.client(&cancel("2"));
    play.call(count + 1);
    assert!(!play.session.takes_input(), "a withdrawn call is still being decided");
    play.wait(DEADLINE);
    assert!(play.session.takes_input(), "nothing waits longer than its deadline");
}

#[test]
fn a_server_that_does_not_read_stops_the_client() {
    let mut play = Play::open();
    let notification =
        format!("{{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":{{\"x\":\"{}\"}}}}\n", "x".repeat(60_000));
    let mut sent = 0;
    while play.session.takes_input() {
        play.client(&notification);
        sent += notification.len();
    }
    assert!(sent <= QUEUED_BYTES_MAX + notification.len());
    play.server_gets();
    assert!(play.session.takes_input());
}

#[test]
fn refusals_that_nobody_reads_stop_the_client_and_take_bounded_room() {
    let mut play = Play::open();
    let mut frames = 0;
    while play.session.takes_input() {
        play.client("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"result\":1}\n");
        frames += 1;
        assert!(frames < 100_000);
        if frames % 100 == 0 {
            play.told();
        }
    }
    play.client_gets();
    assert!(play.session.takes_input());
}

#[test]
fn events_that_cannot_be_told_are_counted_and_the_count_is_told_at_the_end() {
    let mut play = Play::open();
    play.session.lost_daemon("closed", play.now);
    for _ in 0..EVENTS_MAX + 10 {
        play.client("nonsense\n");
    }
    play.connect(CONNECTION);
    assert_eq!(play.anomalies().len(), EVENTS_MAX);
    play.session.close("client-closed", play.now);
    let close = Close { how: "client-closed".to_owned(), lost_events: 10 };
    assert_eq!(play.told(), [FromRelay::Close(close)]);
}

#[test]
fn events_that_were_not_sent_when_the_connection_ended_are_counted() {
    let mut play = Play::open();
    let frame = play.call(1);
    play.permit(1, &frame);
    play.told();
    play.server(&answer(1));
    play.wait(RIDE_WAIT);
    assert!(!play.session.mail.unsent().is_empty());
    play.session.lost_daemon("closed", play.now);
    play.connect(CONNECTION);
    play.told();
    play.session.close("client-closed", play.now);
    assert!(matches!(&play.told()[..], [FromRelay::Close(Close { lost_events: 1, .. })]));
}

#[test]
fn an_outcome_rides_along_with_the_next_call_and_goes_alone_a_moment_later() {
    let mut play = Play::open();
    let frame = play.call(1);
    play.permit(1, &frame);
    play.told();
    play.server(&answer(1));
    assert!(play.session.mail.unsent().is_empty());
    let frame = play.call(2);
    let told = play.told();
    assert!(matches!(&told[..], [FromRelay::Outcome(_), FromRelay::Decide(_)]), "{told:?}");
    play.permit(2, &frame);
    play.server(&answer(2));
    assert_eq!(play.session.due(), Some(play.now + RIDE_WAIT));
    assert_eq!(play.outcomes(), [(102, Outcome::Ok)]);
    assert_eq!(play.session.due(), None, "nothing wakes an idle relay");
}

// The end.

#[test]
fn a_permitted_call_that_cannot_be_written_is_refused_and_failed() {
    let mut play = Play::open();
    let first = play.call(1);
    play.permit(1, &first);
    play.call(2);
    play.session.server_stopped_listening(play.now);
    play.call(3);
    let expected = [refusal(2, "server-write"), refusal(1, "server-write"), refusal(3, "server-write")];
    assert_eq!(play.answers(), expected);
    assert_eq!(play.outcomes(), [(101, Outcome::Error)]);
    assert_eq!(play.session.to_server.bytes(), 0);
}

#[test]
fn when_the_server_goes_open_calls_have_failed_and_nobody_is_answered() {
    let mut play = Play::open();
    let first = play.call(1);
    play.permit(1, &first);
    play.server_gets();
    let second = play.call(2);
    play.permit(2, &second);
    let third = play.call(3);
    play.session.server_gone(play.now);
    assert_eq!(play.outcomes(), [(102, Outcome::Error), (101, Outcome::Error)]);
    assert!(play.session.is_owed());
    play.permit(3, &third);
    assert_eq!((play.server_gets().as_str(), play.client_gets().as_str()), ("", ""));
    assert_eq!(play.outcomes(), [(103, Outcome::Error)]);
    assert!(!play.session.is_owed());
}

#[test]
fn when_the_server_ends_a_call_without_a_decision_is_refused_for_that_and_not_for_a_slow_daemon() {
    let mut play = Play::open();
    play.call(1);
    let second = play.call(2);
    play.permit(2, &second);
    play.session.server_stopped_listening(play.now);
    assert_eq!(play.answers(), [refusal(1, "server-write"), refusal(2, "server-write")]);
    assert_eq!(play.server_gets(), "");
    assert_eq!(play.outcomes(), [(102, Outcome::Error)]);
}
