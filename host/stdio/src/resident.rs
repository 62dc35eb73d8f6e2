//! What of this process stays in memory.

use std::ops::Range;

/// Lets go of the code that has run so far. What runs again comes back from the page cache, within microseconds; what only
/// starting needed does not: some 3 MB that each relay would hold on to all day.
pub fn let_go_of_code() {
    let Some(code) = own_code() else { return };
    #[cfg(target_os = "linux")]
    #[expect(unsafe_code, reason = "advice that may clear memory is unsafe")]
    // SAFETY: these are pages of a file that nobody can write to while it is executed, mapped without the right to write:
    // whatever is read of them again is what was there.
    unsafe {
        let start = std::ptr::without_provenance_mut(code.start);
        // Without it they stay, which is no harm.
        rustix::mm::madvise(start, code.len(), rustix::mm::Advice::LinuxDontNeed).ok();
    }
    #[cfg(not(target_os = "linux"))]
    drop(code);
}

/// Where the code of this program lies: the mapping that this function is in.
fn own_code() -> Option<Range<usize>> {
    let here: fn() -> Option<Range<usize>> = own_code;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().filter_map(code).find(|code| code.contains(&(here as usize)))
}

/// The addresses that a line of `proc_pid_maps(5)` is about, if they are private code of a file.
fn code(line: &str) -> Option<Range<usize>> {
    let (addresses, rest) = line.split_once(' ')?;
    let (start, end) = addresses.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    rest.starts_with("r-xp ").then_some(address(start)?..address(end)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_is_let_go_of() {
        assert_eq!(code("55a0-55b0 r-xp 00001000 fe:00 42    /usr/bin/callgate"), Some(0x55a0..0x55b0));
        for other in ["55a0-55b0 r--p 00001000 fe:00 42 /usr/bin/callgate", "55a0-55b0 rw-p 0 00:00 0 [heap]", "", "x"]
        {
            assert_eq!(code(other), None, "{other}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_was_let_go_of_runs_again() {
        let code = own_code().expect("this test is in it");
        let_go_of_code();
        assert_eq!(own_code(), Some(code));
    }
}
