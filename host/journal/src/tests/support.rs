//! One journal in a folder of its own, with clocks that only move when told to, and calls to settle.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use callgate_core::agent::{AgentEntry, AgentId, AgentStep, Named, Program};
use callgate_core::call::Call;
use callgate_core::code::Code;
use callgate_core::digest::Digest;
use callgate_core::entry::{AnomalyBody, Draft, Kind, SessionStartBody, Side};
use callgate_core::evaluate::{ChainDefault, Member, Opinions, evaluate};
use callgate_core::evidence::Executable;
use callgate_core::grant::GrantEntry;
use callgate_core::identity::{Caller, Server, ServerName, SessionId};
use callgate_core::permit::Binding;
use callgate_core::plugin::{PluginEntry, PluginResetBody};
use callgate_core::policy::{PolicyChange, PolicyItem};
use callgate_core::port::{Case, Clock, Ledger, LedgerFailure, Settlement};
use callgate_core::rule::{RuleEntry, RuleKey, Target};
use callgate_core::server::{CredentialBody, ServerEntry, ServerId, ServerStep, StoreKind};
use callgate_core::settle::{Decision, Word};
use tempfile::TempDir;

use crate::{
    Filter, Journal, OpenError, Options, Page, PolicyChanged, PolicyError, Reader, RecordPolicy, Verification,
};

/// When the tests take place.
pub(super) const START_MS: i64 = 1_764_000_000_000;

/// A wall clock and a boot clock.
pub(super) struct TestClock {
    wall_ms: AtomicI64,
    boot_ms: AtomicU64,
}

impl TestClock {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { wall_ms: AtomicI64::new(START_MS), boot_ms: AtomicU64::new(5_000) })
    }

    /// Lets time pass.
    pub(super) fn pass(&self, ms: u32) {
        self.wall_ms.fetch_add(ms.into(), Ordering::SeqCst);
        self.boot_ms.fetch_add(ms.into(), Ordering::SeqCst);
    }

    /// Sets the wall clock.
    pub(super) fn set(&self, by_ms: i64) {
        self.wall_ms.fetch_add(by_ms, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now_ms(&self) -> i64 {
        self.wall_ms.load(Ordering::SeqCst)
    }

    fn boot_ms(&self) -> u64 {
        self.boot_ms.load(Ordering::SeqCst)
    }
}

/// A folder with a journal in it, or about to have one.
pub(super) struct Place {
    pub(super) folder: TempDir,
    pub(super) clock: Arc<TestClock>,
    pub(super) record: RecordPolicy,
}

impl Place {
    pub(super) fn new() -> Self {
        Self::in_folder(tempfile::tempdir().unwrap())
    }

    pub(super) fn in_folder(folder: TempDir) -> Self {
        Self { folder, clock: TestClock::new(), record: RecordPolicy::default() }
    }

    pub(super) fn database(&self) -> PathBuf {
        self.folder.path().join("data/journal.db")
    }

    pub(super) fn marker(&self) -> PathBuf {
        self.folder.path().join("config/install")
    }

    pub(super) fn try_open(&self) -> Result<Journal, OpenError> {
        Journal::open(Options {
            database: self.database(),
            install_marker: self.marker(),
            record: self.record.clone(),
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            build: "0.1.0-test".to_owned(),
        })
    }

    pub(super) fn open(&self) -> Journal {
        self.try_open().unwrap()
    }

    pub(super) fn reader(&self) -> Reader {
        Reader::open(&self.database(), Some(&self.marker())).unwrap()
    }

    pub(super) fn entries(&self) -> Page {
        let page = self.reader().page(0, &Filter::default(), usize::MAX).unwrap();
        assert!(page.complete);
        page
    }

    pub(super) fn kinds(&self) -> Vec<String> {
        self.entries().entries.into_iter().map(|entry| entry.kind).collect()
    }

    pub(super) fn verify(&self) -> Verification {
        crate::verify(&self.database(), Some(&self.marker()), None)
    }

    /// How many entries the journal has; fails unless it verifies.
    pub(super) fn sound(&self) -> u64 {
        match self.verify() {
            Verification::Sound(sound) => sound.head.entries,
            unsound => panic!("{unsound:?}"),
        }
    }

    /// Appends an entry, hashed as it has to be, that the journal itself may never write.
    pub(super) fn append_by_hand(&self, draft: &Draft) {
        let head = self.reader().head().unwrap();
        let seq = head.entries + 1;
        let chain = crate::chain::link(&head.chain, &crate::chain::leaf(seq, START_MS, draft.kind, &draft.body));
        let connection = rusqlite::Connection::open(self.database()).unwrap();
        connection
            .execute(
                "INSERT INTO entry (seq, time_ms, kind, body, chain) VALUES (?1, ?2, ?3, ?4, ?5)",
                rusqlite::params![seq.cast_signed(), START_MS, draft.kind.as_str(), draft.body, chain.as_bytes()],
            )
            .unwrap();
    }

    /// Runs SQL on the database as anyone with a shell could, triggers and checks switched off.
    pub(super) fn tamper(&self, sql: &str) {
        let connection = rusqlite::Connection::open(self.database()).unwrap();
        connection.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
        connection.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON;").unwrap();
        connection.execute_batch(sql).unwrap();
        connection.close().unwrap();
    }
}

pub(super) fn session(number: u8) -> SessionId {
    SessionId::from_random([number; 16])
}

pub(super) fn server(name: &str) -> Server {
    Server { id: String::new(), name: name.parse().unwrap() }
}

pub(super) fn start(number: u8) -> SessionStartBody {
    SessionStartBody {
        session: session(number),
        server: server("fs"),
        command: vec!["npx".to_owned(), "server-filesystem".to_owned()],
        claim: None,
        agent: None,
        unknown: None,
        ancestry: Vec::new(),
        pid: 4711,
        resumed: false,
    }
}

/// A draft of a kind that stands for itself, with some text of its own.
pub(super) fn anomaly(detail: &str) -> Draft {
    let body = AnomalyBody {
        session: session(1),
        from: Side::Server,
        code: Code::NotJson,
        detail: detail.to_owned(),
        frame: None,
        bytes: 12,
    };
    Draft::of(Kind::Anomaly, &body)
}

/// A call of session 1 to `tool` of server fs.
pub(super) fn call(tool: &str, arguments: &str) -> Call {
    Call {
        binding: Binding { connection: 7, sequence: 1, frame: Digest::of(tool.as_bytes()) },
        session: session(1),
        request_id: "1".to_owned(),
        caller: Arc::new(Caller {
            agent: None,
            client: "claude-code".to_owned(),
            server: server("fs"),
            attributes: Vec::new(),
        }),
        tool: tool.to_owned(),
        listed: None,
        arguments: arguments.into(),
    }
}

/// The case of a call that the chain's default decides.
pub(super) fn case_by(default: ChainDefault, generation: u64, call: Call) -> Case {
    let members: Arc<[Member]> = ["rules", "budget"]
        .map(|plugin| Member {
            plugin: plugin.to_owned(),
            component: Digest::of(plugin.as_bytes()),
            settings: Digest::of(b"{}"),
        })
        .into();
    let evaluated = evaluate(Opinions { generation, members, default, opinions: Vec::new() });
    Case { call, evaluated }
}

/// The case of a call that is allowed.
pub(super) fn case(generation: u64, tool: &str) -> Case {
    case_by(ChainDefault::Allow, generation, call(tool, r#"{"path":"/tmp/x"}"#))
}

/// The case of a call that is denied.
pub(super) fn denied(generation: u64, tool: &str) -> Case {
    case_by(ChainDefault::Deny, generation, call(tool, "{}"))
}

pub(super) fn settle(journal: &Journal, case: Case) -> Result<Settlement, LedgerFailure> {
    journal.settle(vec![case]).pop().unwrap()
}

/// Settles a call that is allowed at generation 0, and returns its entry.
pub(super) fn allow(journal: &Journal, tool: &str) -> Result<u64, LedgerFailure> {
    match settle(journal, case(journal.status().generation, tool))? {
        Settlement::Committed { entry, decision: Decision::Allowed { .. } } => Ok(entry),
        other => panic!("{other:?}"),
    }
}

pub(super) fn rule(effect: Word, tool: &str) -> RuleEntry {
    RuleEntry { effect, key: key(tool) }
}

pub(super) fn key(tool: &str) -> RuleKey {
    RuleKey { target: Target::Tool(tool.to_owned()), agent: None, server: None }
}

pub(super) fn on_server(mut rule: RuleEntry, server: &str) -> RuleEntry {
    rule.key.server = Some(server.parse::<ServerName>().unwrap());
    rule
}

pub(super) fn budget(json: &str) -> PolicyItem {
    PolicyItem::Budget(serde_json::from_str(json).unwrap())
}

/// A grant of agent `a` on server `fs`.
pub(super) fn grant(tool: &str, args: &[(&str, &str)]) -> PolicyItem {
    PolicyItem::Grant(GrantEntry {
        agent: "a".parse().unwrap(),
        server: "fs".parse().unwrap(),
        tool: tool.to_owned(),
        args: args.iter().map(|(name, pattern)| ((*name).to_owned(), (*pattern).to_owned())).collect(),
    })
}

pub(super) fn adding(item: impl Into<PolicyItem>) -> PolicyChange {
    PolicyChange::Add(item.into())
}

pub(super) fn removing(item: impl Into<PolicyItem>) -> PolicyChange {
    PolicyChange::Remove(item.into().key())
}

/// Changes the policy at the present generation.
pub(super) fn change(journal: &Journal, changes: &[PolicyChange]) -> Result<PolicyChanged, PolicyError> {
    journal.change_policy(changes.to_vec(), journal.status().generation, Box::new(|_| ()))
}

/// Adds an item at the present generation.
pub(super) fn add(journal: &Journal, item: impl Into<PolicyItem>) {
    change(journal, &[adding(item)]).unwrap();
}

/// A journal with every kind of entry, closed.
pub(super) fn full_journal() -> Place {
    use callgate_core::entry::{DaemonBody, Outcome, SessionEndBody};
    let place = Place::new();
    let body = DaemonBody { build: "0.1.0".to_owned(), pid: 1, generation: 0, config: Digest::of(b"") };
    let end = SessionEndBody { session: session(1), how: "client-closed".to_owned(), lost_events: 0 };
    let journal = place.open();
    journal.append(vec![Draft::of(Kind::DaemonStart, &body)]).unwrap();
    journal.open_session(start(1)).unwrap();
    add(&journal, rule(Word::Deny, "write_file"));
    add(&journal, on_server(rule(Word::Allow, "read_*"), "fs"));
    for round in 0..40 {
        place.clock.pass(3);
        let entry = allow(&journal, &format!("read_file_{round}")).unwrap();
        settle(&journal, denied(2, "write_file")).unwrap();
        journal.note_outcome(session(1), entry, if round % 3 == 0 { Outcome::Error } else { Outcome::Ok }, None);
    }
    let items = [budget(r#"{"limit":3,"tool":"read_*"}"#), grant("x", &[]), grant("x", &[("path", "/srv/**")])];
    change(&journal, &[&[removing(rule(Word::Deny, "write_file"))], &items.clone().map(adding)[..]].concat()).unwrap();
    change(&journal, &items.map(removing)[..2]).unwrap();
    allow(&journal, "left_open").unwrap();
    journal
        .append(vec![anomaly("odd"), Draft::of(Kind::SessionEnd, &end), Draft::of(Kind::DaemonStop, &body)])
        .unwrap();
    drop(journal);
    place.clock.set(-60_000);
    let journal = place.open();
    allow(&journal, "pending").unwrap();
    register_and_remove(&journal);
    enrol_and_remove(&journal);
    let plugin = |name: &str, component: &[u8]| PluginEntry::new(name.parse().unwrap(), Digest::of(component));
    let (a, b, c) = (plugin("a", b"1"), plugin("b", b"1"), plugin("c", b"1"));
    for list in [vec![a, b.clone(), c.clone()], vec![c.clone(), plugin("a", b"2"), b], vec![c.clone()]] {
        journal.change_plugins(&journal.plugins().unwrap(), list, None, Box::new(|_| ())).unwrap();
    }
    journal.append(vec![Draft::of(Kind::PluginReset, &PluginResetBody { plugin: c.name })]).unwrap();
    drop(journal);
    let kinds = place.kinds();
    for kind in Kind::ALL {
        assert!(kinds.iter().any(|found| found == kind.as_str()), "there is no {}", kind.as_str());
    }
    place
}

pub(super) fn registered(id: u8, name: &str) -> ServerEntry {
    ServerEntry {
        id: ServerId::from_random([id; 16]),
        name: name.parse().unwrap(),
        command: vec!["npx".to_owned(), "-y".to_owned(), "server-github".to_owned()],
        env: vec!["GITHUB_TOKEN".parse().unwrap()],
    }
}

pub(super) fn credential(server: &ServerEntry) -> CredentialBody {
    CredentialBody { server: server.as_server(), variable: server.env[0].clone(), store: StoreKind::System }
}

/// Registers two servers with a credential each, and removes one of them.
fn register_and_remove(journal: &Journal) {
    for server in [registered(1, "github"), registered(2, "gitlab")] {
        let credential = credential(&server);
        journal.change_servers(vec![ServerStep::Add(server), ServerStep::SetCredential(credential)]).unwrap();
    }
    let gone = registered(1, "github");
    journal.change_servers(vec![ServerStep::RemoveCredential(credential(&gone)), ServerStep::Remove(gone)]).unwrap();
}

pub(super) fn enrolled(id: u8, name: &str, inode: u64) -> AgentEntry {
    let path = format!("/opt/{name}/{name}");
    let executable = Executable { path: path.clone(), inode, bytes: 1, modified_ms: 1 };
    AgentEntry {
        id: AgentId::from_random([id; 16]),
        name: name.parse().unwrap(),
        program: Program { named: Named { program: path, script: None }, executable, script: None },
        via: vec!["sh".parse().unwrap()],
    }
}

/// Enrols two agents, refreshes one and removes the other.
fn enrol_and_remove(journal: &Journal) {
    let (cursor, zed) = (enrolled(1, "cursor", 1), enrolled(2, "zed", 2));
    for step in [AgentStep::Add(cursor), AgentStep::Add(zed.clone()), AgentStep::Refresh(enrolled(1, "cursor", 3))] {
        journal.change_agents(step).unwrap();
    }
    journal.change_agents(AgentStep::Remove(zed)).unwrap();
}

/// How many items wait for a commit.
pub(super) fn waiting_items(journal: &Journal) -> usize {
    journal.shared().queue.waiting_items()
}

/// Does something with the writer's own connection.
pub(super) fn with_connection<T>(journal: &Journal, act: impl FnOnce(&rusqlite::Connection) -> T) -> T {
    act(journal.shared().writer.lock().unwrap().connection())
}
