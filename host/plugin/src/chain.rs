//! The chain: every plugin that a call is put before, in order, and what counts when none has anything to say.

use std::sync::{Arc, PoisonError, RwLock};

use callgate_core::call::Call;
use callgate_core::evaluate::{ChainDefault, Member, Opinions};
use callgate_core::port::Evaluator;
use callgate_core::verdict::{Answer, Failure, Opinion};

use crate::configured::Configured;
use crate::scope::Scope;
use crate::settings::SettingsWarning;

/// One place in the chain.
#[derive(Clone, Debug)]
pub struct Link {
    member: Member,
    may_grant: bool,
    scope: Scope,
    plugin: Result<Configured, String>,
}

impl Link {
    /// A plugin that is ready, asked about every call. Its `allow` counts only if it `may_grant`.
    pub fn ready(plugin: Configured, may_grant: bool) -> Self {
        Self { member: plugin.member().clone(), may_grant, scope: Scope::EVERYTHING, plugin: Ok(plugin) }
    }

    /// A plugin that belongs in the chain and could not be loaded or configured, and why: it denies every call.
    pub fn broken(member: Member, why: impl Into<String>) -> Self {
        Self { member, may_grant: false, scope: Scope::EVERYTHING, plugin: Err(why.into()) }
    }

    /// The same, asked about the calls of a scope only: about others it says nothing, and a broken one denies none of them.
    #[must_use]
    pub fn scoped(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    /// Who it is.
    pub const fn member(&self) -> &Member {
        &self.member
    }

    /// The plugin, when it is ready.
    pub fn plugin(&self) -> Option<&Configured> {
        self.plugin.as_ref().ok()
    }

    /// Whether the other is this very plugin, with the instances it keeps.
    pub fn is_the_same(&self, other: &Self) -> bool {
        matches!((&self.plugin, &other.plugin), (Ok(this), Ok(that)) if this.is_the_same(that))
    }

    /// What a person should look at in its settings.
    pub fn warnings(&self) -> &[SettingsWarning] {
        self.plugin.as_ref().map_or(&[], Configured::warnings)
    }

    /// Why it denies every call of its scope; `None` when it is ready.
    pub fn why_broken(&self) -> Option<&str> {
        self.plugin.as_ref().err().map(String::as_str)
    }
}

/// The chain as it is at one moment. Does not change; another one takes its place.
#[derive(Debug)]
pub struct Chain {
    generation: u64,
    default: ChainDefault,
    members: Arc<[Member]>,
    links: Vec<Link>,
}

impl Chain {
    /// A chain. `generation` has to be another one than any chain had that it takes the place of.
    pub fn new(generation: u64, default: ChainDefault, links: Vec<Link>) -> Self {
        let members = links.iter().map(|link| link.member.clone()).collect();
        Self { generation, default, members, links }
    }

    /// The same with more links at its end.
    #[must_use]
    pub fn followed_by(self, links: impl IntoIterator<Item = Link>) -> Self {
        let Self { generation, default, links: mut all, .. } = self;
        all.extend(links);
        Self::new(generation, default, all)
    }

    /// Which one it is.
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Who is in it, in order.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Every link, in order.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The same for calls that nobody makes.
    pub const fn imagined(&self) -> Imagined<'_> {
        Imagined(self)
    }

    fn opinions_by(&self, call: &Call, ask: fn(&Configured, &Call) -> Result<Answer, Failure>) -> Opinions {
        let asked: Vec<(usize, &Link)> =
            self.links.iter().enumerate().filter(|(_, link)| link.scope.covers(&call.caller)).collect();
        let members = if asked.len() == self.links.len() {
            Arc::clone(&self.members)
        } else {
            asked.iter().map(|(_, link)| link.member.clone()).collect()
        };
        let opinion = |(position, link): (usize, &Link)| Opinion {
            position,
            plugin: link.member.plugin.clone(),
            may_grant: link.may_grant,
            outcome: match &link.plugin {
                Ok(plugin) => ask(plugin, call),
                Err(why) => Err(Failure::NotReady(why.clone())),
            },
        };
        let opinions = asked.into_iter().map(opinion).collect();
        Opinions { generation: self.generation, members, default: self.default, opinions }
    }
}

impl Evaluator for Chain {
    fn opinions(&self, call: &Call) -> Opinions {
        self.opinions_by(call, Configured::decide)
    }
}

/// A chain that is only asked what it would say ([`Configured::imagine`]).
#[derive(Clone, Copy, Debug)]
pub struct Imagined<'a>(&'a Chain);

impl Evaluator for Imagined<'_> {
    fn opinions(&self, call: &Call) -> Opinions {
        self.0.opinions_by(call, Configured::imagine)
    }
}

/// Holds the chain that is in force. A call sees one chain from its first plugin to its last.
#[derive(Debug)]
pub struct Switch(RwLock<Arc<Chain>>);

impl Switch {
    /// Starts with a chain.
    pub fn new(chain: Chain) -> Self {
        Self(RwLock::new(Arc::new(chain)))
    }

    /// Puts another chain in force, for every call that is evaluated from now on.
    pub fn set(&self, chain: Chain) {
        let old = {
            let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *current, Arc::new(chain))
        };
        // Its instances are torn down here, where nobody waits for the lock.
        drop(old);
    }

    /// The chain in force.
    pub fn chain(&self) -> Arc<Chain> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}
