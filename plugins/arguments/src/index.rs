//! Finds the grants that name a call's tool, at the cost of those of its agent and server whose tool pattern can match.

use callgate_sdk::matching::ToolIndex;

use crate::grant::Grant;

/// The index over all grants.
#[derive(Debug)]
pub(crate) struct Index {
    /// Every agent that is answered for, in order.
    agents: Vec<String>,
    /// The grants of each agent and server, in that order.
    groups: Vec<Group>,
}

/// The grants of one agent and server.
#[derive(Debug)]
struct Group {
    agent: String,
    server: String,
    /// Their tool patterns, each once.
    tools: ToolIndex,
    /// The places of each pattern's grants.
    by_pattern: Vec<Vec<usize>>,
}

impl Index {
    /// Indexes the grants; `agents` are answered for even without one.
    pub(crate) fn new(grants: &[Grant], mut agents: Vec<String>) -> Self {
        agents.extend(grants.iter().map(|grant| grant.agent.clone()));
        agents.sort_unstable();
        agents.dedup();
        let mut places: Vec<usize> = (0..grants.len()).collect();
        let key = |place: &usize| (&grants[*place].agent, &grants[*place].server, &grants[*place].tool);
        places.sort_by(|a, b| key(a).cmp(&key(b)));
        let is_together =
            |a: &usize, b: &usize| grants[*a].agent == grants[*b].agent && grants[*a].server == grants[*b].server;
        let groups = places.chunk_by(is_together).map(|places| Group::new(grants, places)).collect();
        Self { agents, groups }
    }

    /// Whether an agent is answered for.
    pub(crate) fn is_under(&self, agent: &str) -> bool {
        self.agents.binary_search_by(|known| known.as_str().cmp(agent)).is_ok()
    }

    /// The places of the agent's grants on a server that name a tool, the earliest first.
    pub(crate) fn naming(&self, agent: &str, server: &str, tool: &str) -> Vec<usize> {
        let found = self.groups.binary_search_by(|group| (&*group.agent, &*group.server).cmp(&(agent, server)));
        let Ok(group) = found.map(|group| &self.groups[group]) else { return Vec::new() };
        let mut naming = Vec::new();
        group.tools.each_matching(tool, |pattern| naming.extend(&group.by_pattern[pattern]));
        naming.sort_unstable();
        naming
    }
}

impl Group {
    /// The group of grants at places that are ordered by tool and are not none.
    fn new(grants: &[Grant], places: &[usize]) -> Self {
        let by_pattern: Vec<Vec<usize>> =
            places.chunk_by(|a, b| grants[*a].tool == grants[*b].tool).map(<[usize]>::to_vec).collect();
        let tools = ToolIndex::new(by_pattern.iter().map(|places| &grants[places[0]].tool));
        let first = &grants[places[0]];
        Self { agent: first.agent.clone(), server: first.server.clone(), tools, by_pattern }
    }
}
