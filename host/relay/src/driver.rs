//! Moves bytes between descriptors and the session, and brings the child to its end. Decides nothing.
//!
//! One task waits for everything at once, so that an event costs one wake-up and nothing is handed from task to task.
//! Every buffer lives in the session or in [`Frames`]; a read or a write that is not ready leaves no bytes behind.

use std::future::poll_fn;
use std::io::IoSlice;
use std::process::ExitStatus;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use callgate_stdio::child::{Ended, Group, Spawned};
use callgate_stdio::detached::Detached;
use callgate_stdio::frames::Frames;
use callgate_stdio::ladder::{Descent, Ladder, Rung};
use callgate_stdio::pipes::{Sink, Source};
use callgate_stdio::resident::let_go_of_code;
use rustix::process::Signal;
use tokio::time::timeout;

use crate::alarm::{Alarm, now};
use crate::dial::connect;
use crate::session::Session;
use crate::signals::Signals;
use crate::to_server::FRAMES_PER_WRITE;
use crate::{Daemon, End, Exit};

/// How long the end of the session may take to be told; it does not delay the exit.
const CLOSE_MAX: Duration = Duration::from_millis(100);
/// The exit code when the server was killed and its end was not waited for: 128 and SIGKILL.
const KILLED: u8 = 137;
/// The exit code when the server cannot be asked after.
const LOST: u8 = 70;

/// The relay at work.
pub(crate) struct Driver<'a, D> {
    session: Session,
    daemon: &'a D,
    /// `None` when it has ended or nobody is there any more.
    client_in: Option<Frames>,
    client_out: Option<Sink>,
    server_in: Option<Sink>,
    server_out: Option<Source>,
    group: Group,
    ended: Option<Ended>,
    daemon_in: Option<Source>,
    daemon_out: Option<Sink>,
    /// Daemons started by this relay, to be reaped.
    started: Vec<Detached>,
    /// How the last of them that ended did.
    daemon_ended: Option<ExitStatus>,
    signals: Signals,
    descent: Option<Descent>,
    end: Option<End>,
    alarm: Alarm,
    /// Whether starting is over.
    is_up: bool,
}

impl<'a, D: Daemon> Driver<'a, D> {
    pub(crate) fn new(
        session: Session,
        daemon: &'a D,
        (client_in, client_out): (Frames, Sink),
        server: Spawned,
        signals: Signals,
    ) -> Self {
        let Spawned { stdin, stdout, group } = server;
        Self {
            session,
            daemon,
            client_in: Some(client_in),
            client_out: Some(client_out),
            server_in: Some(stdin),
            server_out: Some(stdout),
            group,
            ended: None,
            daemon_in: None,
            daemon_out: None,
            started: Vec::new(),
            daemon_ended: None,
            signals,
            descent: None,
            end: None,
            alarm: Alarm::new(),
            is_up: false,
        }
    }

    /// Relays until both sides are done, kills what is left of the server, and tells the daemon.
    pub(crate) async fn run(mut self) -> Exit {
        poll_fn(|context| self.poll_relay(context)).await;
        self.session.server_gone(now());
        // Before the daemon is told, so that nothing of the server outlives the time it was given.
        self.group.kill();
        let end = self.end.unwrap_or(End::ServerExited);
        self.part(end).await;
        Exit { code: self.ended.map_or(KILLED, Ended::exit_code), end }
    }

    /// Tells the daemon. That it does not hear in time is no failure of the session.
    async fn part(&mut self, end: End) {
        let owed = poll_fn(|context| self.poll_owed(context));
        drop(timeout(CLOSE_MAX / 2, owed).await);
        self.session.close(end.as_str(), now());
        let sent = poll_fn(|context| self.poll_mail_sent(context));
        drop(timeout(CLOSE_MAX / 2, sent).await);
    }

    /// Does everything that can be done now. Pending until something can be done again, ready at the end.
    fn poll_relay(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let now = now();
            self.pass_time(now);
            // What arrived goes out before it is read any further.
            let mut moved = self.take_from_daemon(context, now);
            moved |= self.take_from_client(context, now);
            moved |= self.take_from_server(context, now);
            moved |= self.write_to_server(context, now);
            moved |= self.write_to_daemon(context, now);
            moved |= self.write_to_client(context, now);
            self.session.read_server(now);
            moved |= self.take_signals(context, now);
            if self.is_over() {
                return Poll::Ready(());
            }
            moved |= self.alarm.poll(context, self.due());
            if !moved {
                self.settle_down();
                return Poll::Pending;
            }
        }
    }

    /// Lets go of what only starting needed, once the session is open.
    fn settle_down(&mut self) {
        if !self.is_up && self.session.link.is_open() {
            self.is_up = true;
            let_go_of_code();
        }
    }

    fn is_over(&self) -> bool {
        let server_is_done = self.server_out.is_none() && (self.ended.is_some() || self.is_leaving());
        let client_is_done = self.client_out.is_none() || self.session.to_client.next_chunk().is_empty();
        // A client that is still there gets all of it, however long it takes to read, as it would from a pipe.
        (server_is_done && client_is_done) || (self.is_leaving() && self.end == Some(End::Signal))
    }

    fn is_leaving(&self) -> bool {
        self.descent.is_some_and(|descent| descent.took(Rung::Leave))
    }

    // Time.

    fn pass_time(&mut self, now: Instant) {
        self.session.pass_time(now);
        self.climb_down(now);
        self.drop_daemon_if_lost();
        if self.session.link.dial_is_due(now) {
            self.dial(now);
        }
    }

    fn due(&self) -> Option<Instant> {
        let step = self.descent.and_then(|descent| descent.next_at());
        [self.session.due(), step].into_iter().flatten().min()
    }

    /// Begins the end, once.
    fn begin_end(&mut self, end: End, now: Instant) {
        if self.end.is_none() {
            self.end = Some(end);
            self.descent = Some(Descent::new(Ladder::STANDARD, now));
        }
    }

    fn climb_down(&mut self, now: Instant) {
        if self.end == Some(End::ClientClosed) && self.client_in.is_none() && self.session.has_nothing_for_the_server()
        {
            self.server_in = None;
        }
        while let Some(rung) = self.descent.as_mut().and_then(|descent| descent.step(now)) {
            match rung {
                Rung::Close => self.close_server_input(now),
                Rung::Terminate => self.signal_group(Signal::TERM),
                Rung::Kill => self.signal_group(Signal::KILL),
                Rung::Leave => {}
            }
        }
    }

    fn close_server_input(&mut self, now: Instant) {
        if self.server_in.take().is_some() {
            self.session.server_stopped_listening(now);
        }
    }

    fn signal_group(&self, signal: Signal) {
        // The group is ours; the one thing that can fail is that it is gone, and that is no failure.
        self.group.signal(signal).ok();
    }

    // Client.

    fn take_from_client(&mut self, context: &mut Context<'_>, now: Instant) -> bool {
        let Some(client) = &mut self.client_in else { return false };
        if !self.session.takes_input() {
            let gone = self.end.is_none() && client.poll_hangup(context).is_ready();
            if gone {
                self.begin_end(End::ClientClosed, now);
            }
            return gone;
        }
        let Poll::Ready(piece) = client.poll_piece(context) else { return false };
        // An input that cannot be read any more has ended, whatever the reason.
        let mut next = piece.ok().flatten();
        if next.is_none() {
            self.client_in = None;
            self.begin_end(End::ClientClosed, now);
            return true;
        }
        while let Some(piece) = next {
            self.session.client_sent(piece, now);
            next = if self.session.takes_input() { client.next_buffered() } else { None };
        }
        true
    }

    fn write_to_client(&mut self, context: &mut Context<'_>, now: Instant) -> bool {
        let mut moved = false;
        while let Some(client) = &mut self.client_out {
            let chunk = self.session.to_client.next_chunk();
            if chunk.is_empty() {
                break;
            }
            let Poll::Ready(written) = client.poll_write(context, &[IoSlice::new(chunk)]) else { break };
            moved = true;
            let Ok(bytes) = written else {
                self.client_out = None;
                self.client_in = None;
                // The server learns of it as it would from a pipe of the client's.
                self.server_out = None;
                self.begin_end(End::ClientClosed, now);
                break;
            };
            self.session.to_client.wrote(bytes);
        }
        moved
    }

    // Server.

    fn take_from_server(&mut self, context: &mut Context<'_>, now: Instant) -> bool {
        let to_client = &mut self.session.to_client;
        let Some(server) = self.server_out.as_mut().filter(|_| !to_client.is_full()) else { return false };
        let Poll::Ready(read) = server.poll_read(context, to_client.room()) else {
            // The group is dead: whoever still holds the pipe is not waited for.
            let left = self.is_leaving() && self.server_out.take().is_some();
            return left;
        };
        if read.is_ok_and(|bytes| bytes > 0) {
            to_client.took_in();
        } else {
            to_client.end();
            self.server_out = None;
            // Nothing can come of it any more, whether it has noticed or not.
            self.begin_end(End::ServerExited, now);
            self.close_server_input(now);
        }
        true
    }

    fn write_to_server(&mut self, context: &mut Context<'_>, now: Instant) -> bool {
        let mut moved = false;
        while self.session.to_server.bytes() > 0
            && let Some(server) = &mut self.server_in
        {
            let mut slices = [IoSlice::new(&[]); FRAMES_PER_WRITE];
            let filled = self.session.to_server.gather(&mut slices);
            let Poll::Ready(written) = server.poll_write(context, &slices[..filled]) else { break };
            moved = true;
            let Ok(bytes) = written else {
                self.server_in = None;
                self.session.server_stopped_listening(now);
                break;
            };
            self.session.to_server.wrote(bytes);
        }
        moved
    }

    fn take_signals(&mut self, context: &mut Context<'_>, now: Instant) -> bool {
        let mut moved = false;
        while let Some(signal) = self.signals.poll_asked_to_end(context) {
            moved = true;
            self.signal_group(signal);
            self.end_by_signal(now);
        }
        if self.signals.poll_child(context) {
            moved = true;
            self.reap_daemons();
            self.look_after_the_server(now);
        }
        moved
    }

    fn reap_daemons(&mut self) {
        let Self { started, daemon_ended, .. } = self;
        started.retain_mut(|daemon| match daemon.ended() {
            Some(status) => {
                *daemon_ended = Some(status);
                false
            }
            None => true,
        });
    }

    /// A signal ends the session whatever else was about to.
    fn end_by_signal(&mut self, now: Instant) {
        if self.end != Some(End::Signal) {
            self.end = Some(End::Signal);
            self.descent.get_or_insert_with(|| Descent::new(Ladder::STANDARD, now));
        }
        self.close_server_input(now);
    }

    /// The server may have ended. Asked once at the beginning and then with every SIGCHLD.
    pub(crate) fn look_after_the_server(&mut self, now: Instant) {
        if self.ended.is_some() {
            return;
        }
        // A child that cannot be asked after is not ours any more.
        self.ended = self.group.ended().unwrap_or(Some(Ended::Status(LOST)));
        if self.ended.is_some() {
            self.begin_end(End::ServerExited, now);
        }
    }

    // Daemon.

    fn dial(&mut self, now: Instant) {
        let trouble = match connect(self.daemon) {
            Ok((source, sink)) => {
                self.daemon_in = Some(source);
                self.daemon_out = Some(sink);
                return self.session.reached_daemon(now);
            }
            Err(trouble) => self.with_last_status(trouble.to_string()),
        };
        if self.session.link.may_start() {
            match self.daemon.start() {
                Ok(daemon) => self.started.push(daemon),
                Err(error) => {
                    let trouble = format!("it cannot be started: {error}");
                    return self.session.cannot_start_daemon(&trouble, now);
                }
            }
            self.session.link.started();
        }
        self.session.missed_daemon(trouble, now);
    }

    /// What is wrong, and what became of the daemon that was started here last: often the same thing.
    fn with_last_status(&self, trouble: String) -> String {
        match self.daemon_ended {
            Some(status) => format!("{trouble}; the one started last ended with {status}"),
            None => trouble,
        }
    }

    fn take_from_daemon(&mut self, context: &mut Context<'_>, now: Instant) -> bool {
        let Some(daemon) = &mut self.daemon_in else { return false };
        let Poll::Ready(read) = daemon.poll_read(context, self.session.mail.room()) else { return false };
        match read {
            Ok(0) => self.session.lost_daemon("it closed the connection", now),
            Ok(_) => self.session.read_daemon(now),
            Err(error) => self.session.lost_daemon(&error.to_string(), now),
        }
        self.drop_daemon_if_lost();
        true
    }

    fn write_to_daemon(&mut self, context: &mut Context<'_>, now: Instant) -> bool {
        let mut moved = false;
        while let Some(daemon) = &mut self.daemon_out {
            let mail = self.session.mail.unsent();
            if mail.is_empty() {
                break;
            }
            let Poll::Ready(written) = daemon.poll_write(context, &[IoSlice::new(mail)]) else { break };
            moved = true;
            match written {
                Ok(bytes) => self.session.mail.sent(bytes),
                Err(error) => self.session.lost_daemon(&error.to_string(), now),
            }
            self.drop_daemon_if_lost();
        }
        moved
    }

    fn drop_daemon_if_lost(&mut self) {
        if !self.session.link.is_connected() {
            self.daemon_in = None;
            self.daemon_out = None;
        }
    }

    /// At the end: hears what the daemon still owes, so that what it allowed gets an outcome and what it opened is closed.
    fn poll_owed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.session.is_owed() {
            let sent = self.write_to_daemon(context, now());
            if !self.take_from_daemon(context, now()) && !sent {
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    }

    fn poll_mail_sent(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.write_to_daemon(context, now());
        if self.daemon_out.is_none() || self.session.mail.unsent().is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }
}
