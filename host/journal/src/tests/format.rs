//! The reference page is what the code does: its schema, kinds, bodies and vectors are read out of it.

use callgate_core::agent::AgentBody;
use callgate_core::digest::Digest;
use callgate_core::entry::{
    AnomalyBody, ClockBody, DaemonBody, DecisionBody, Kind, OutcomeBody, PolicyBody, SessionEndBody, SessionStartBody,
};
use callgate_core::plugin::{PluginBody, PluginOrderBody, PluginResetBody};
use callgate_core::server::{CredentialBody, ServerBody};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{InstallId, chain, schema};

const PAGE: &str = include_str!("../../../../docs/reference/journal-format.md");

#[derive(Deserialize)]
struct Vectors {
    install: String,
    genesis: Digest,
    arguments: Arguments,
    entries: Vec<Vector>,
}

#[derive(Deserialize)]
struct Arguments {
    decision: u64,
    salt: String,
    value: String,
    digest: Digest,
}

#[derive(Deserialize)]
struct Vector {
    seq: u64,
    time_ms: i64,
    kind: Kind,
    body: String,
    leaf: Digest,
    chain: Digest,
}

/// The page's only block in `language`.
fn block(language: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("\n```").unwrap().0
}

fn vectors() -> Vectors {
    serde_json::from_str(block("json")).unwrap()
}

#[test]
fn the_vectors_are_what_the_chain_gives() {
    let vectors = vectors();
    let mut chain = chain::genesis(&InstallId::parse(&vectors.install).unwrap());
    assert_eq!(chain, vectors.genesis);
    for (vector, seq) in vectors.entries.iter().zip(1..) {
        assert_eq!(vector.seq, seq);
        let leaf = chain::leaf(seq, vector.time_ms, vector.kind, vector.body.as_bytes());
        chain = chain::link(&chain, &leaf);
        assert_eq!((leaf, chain), (vector.leaf, vector.chain), "entry {seq}");
    }
    for kind in Kind::ALL {
        assert!(vectors.entries.iter().any(|vector| vector.kind == *kind), "{} has no vector", kind.as_str());
    }
}

#[test]
fn the_vectors_commit_to_their_arguments() {
    let vectors = vectors();
    let Arguments { decision, salt, value, digest } = &vectors.arguments;
    let salt = u128::from_str_radix(salt, 16).unwrap().to_be_bytes();
    assert_eq!(Digest::of_parts(&[&salt, value.as_bytes()]), *digest);
    let vector = vectors.entries.iter().find(|vector| vector.seq == *decision).unwrap();
    let body: DecisionBody = serde_json::from_str(&vector.body).unwrap();
    assert_eq!((body.arguments.digest, body.arguments.bytes), (*digest, value.len() as u64));
}

#[test]
fn the_bodies_in_the_vectors_are_of_their_kinds_and_written_just_so() {
    fn same<T: DeserializeOwned + Serialize>(text: &str) {
        let body: T = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&body).unwrap(), text);
    }
    for vector in vectors().entries {
        match vector.kind {
            Kind::DaemonStart | Kind::DaemonStop => same::<DaemonBody>(&vector.body),
            Kind::ClockJump => same::<ClockBody>(&vector.body),
            Kind::SessionStart => same::<SessionStartBody>(&vector.body),
            Kind::SessionEnd => same::<SessionEndBody>(&vector.body),
            Kind::CallDecision => same::<DecisionBody>(&vector.body),
            Kind::CallOutcome | Kind::OutcomeUnknown => same::<OutcomeBody>(&vector.body),
            Kind::Anomaly => same::<AnomalyBody>(&vector.body),
            Kind::RuleAdd
            | Kind::RuleRemove
            | Kind::BudgetAdd
            | Kind::BudgetRemove
            | Kind::GrantAdd
            | Kind::GrantRemove => same::<PolicyBody>(&vector.body),
            Kind::PluginAdd | Kind::PluginChange | Kind::PluginRemove => same::<PluginBody>(&vector.body),
            Kind::PluginOrder => same::<PluginOrderBody>(&vector.body),
            Kind::PluginReset => same::<PluginResetBody>(&vector.body),
            Kind::ServerAdd | Kind::ServerRemove => same::<ServerBody>(&vector.body),
            Kind::CredentialSet | Kind::CredentialRemove => same::<CredentialBody>(&vector.body),
            Kind::AgentAdd | Kind::AgentRefresh | Kind::AgentRemove => same::<AgentBody>(&vector.body),
        }
    }
}

#[test]
fn the_page_names_every_member_of_every_body() {
    for vector in vectors().entries {
        let body: Value = serde_json::from_str(&vector.body).unwrap();
        for member in body.as_object().unwrap().keys() {
            assert!(PAGE.contains(&format!("`{member}`")), "{member} of {} is not described", vector.kind.as_str());
        }
    }
}

#[test]
fn the_page_has_the_schema_and_the_kinds() {
    assert_eq!(block("sql"), schema::TABLES.trim());
    let (_, section) = PAGE.split_once("\n## 4.").unwrap();
    let rows: Vec<&str> =
        section.split_once("\n## ").unwrap().0.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(rows.len(), Kind::ALL.len());
    for (row, kind) in rows.iter().zip(Kind::ALL) {
        let begin = format!("| `{}` | {} |", kind.as_str(), kind.meaning().trim());
        assert!(row.starts_with(&begin), "{row:?} should begin with {begin:?}");
    }
    assert!(PAGE.contains(&format!("{:#010X}", schema::APPLICATION_ID).replace("0X", "0x")));
    assert!(PAGE.contains(&format!("\n| {} | ", schema::SCHEMA)), "the newest version is in the table of versions");
    for kind in Kind::ALL {
        assert!(u8::try_from(kind.as_str().len()).is_ok() && kind.as_str().is_ascii());
    }
}
