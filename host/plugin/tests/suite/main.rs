//! What the plugin crate promises, seen from outside: real components, built here from text, on the real engine.

#[cfg(test)]
mod answers;
#[cfg(test)]
mod breakers;
#[cfg(test)]
mod cache;
#[cfg(test)]
mod chain;
#[cfg(test)]
mod code;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod life;
#[cfg(test)]
mod load;
#[cfg(test)]
mod memo;
#[cfg(test)]
mod panics;
#[cfg(test)]
mod shipped;
