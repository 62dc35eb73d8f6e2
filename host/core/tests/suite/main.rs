//! What core promises its callers, seen from outside.

#[cfg(test)]
mod batches;
#[cfg(test)]
mod calls;
#[cfg(test)]
mod charging;
#[cfg(test)]
mod deciding;
#[cfg(test)]
mod dice;
#[cfg(test)]
mod forms;
#[cfg(test)]
mod frames;
#[cfg(test)]
mod journaled;
#[cfg(test)]
mod parsers;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod servers;
#[cfg(test)]
mod speed;
#[cfg(test)]
mod support;
#[cfg(test)]
mod verdicts;
