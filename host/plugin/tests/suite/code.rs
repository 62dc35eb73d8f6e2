//! Code that is made to be compiled slowly: it is refused before the compiler sees it.

use callgate_plugin::{Limits, LoadError};

use crate::fixture::{Guest, allow, engine};

const TWELVE_MB: usize = 12 << 20;

/// How long a hostile function is, and how many variables it has.
const FUNCTION_BYTES: usize = 100_000;
const VARIABLES: usize = 1_000;

/// A number in LEB128.
fn number(mut number: usize, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
        number >>= 7;
    }
    out.push(u8::try_from(number).unwrap());
}

fn section(id: u8, content: &[u8], out: &mut Vec<u8>) {
    out.push(id);
    number(content.len(), out);
    out.extend_from_slice(content);
}

/// Loops without end of sight, each of which moves one variable to another: every loop is a place where every variable may
/// have come from two.
fn function() -> Vec<u8> {
    let mut body = vec![1];
    number(VARIABLES, &mut body);
    body.push(0x7f);
    let mut loops = 0;
    while body.len() < FUNCTION_BYTES {
        body.extend([0x03, 0x40, 0x20]);
        number(loops * 7 % VARIABLES, &mut body);
        body.push(0x21);
        number(loops * 13 % VARIABLES, &mut body);
        body.extend([0x20, 0, 0x0d, 0, 0x0b]);
        loops += 1;
    }
    body.extend([0x20, 0, 0x0b]);
    body
}

/// A plugin that works, with a module of so many bytes beside it that it has no use for.
fn plugin_with(code_bytes: usize) -> Vec<u8> {
    let function = function();
    let functions = code_bytes / function.len();
    let mut module = b"\0asm\x01\0\0\0".to_vec();
    section(1, &[1, 0x60, 1, 0x7f, 1, 0x7f], &mut module);
    let (mut types, mut code) = (Vec::new(), Vec::new());
    number(functions, &mut types);
    types.resize(types.len() + functions, 0);
    section(3, &types, &mut module);
    number(functions, &mut code);
    for _ in 0..functions {
        number(function.len(), &mut code);
        code.extend_from_slice(&function);
    }
    section(10, &code, &mut module);
    let mut component = Guest::answering(&allow()).build();
    section(1, &module, &mut component);
    component
}

#[test]
fn twelve_megabytes_of_code_that_would_compile_for_minutes_are_refused() {
    let component = plugin_with(TWELVE_MB);
    assert!(component.len() > TWELVE_MB - FUNCTION_BYTES);
    let refusal = engine(Limits::SHIPPED).load(&component).unwrap_err();
    assert_eq!(refusal, LoadError::TooMuchEffort);
    let told = "it would take too long to compile: its functions branch too often among too many variables; \
        an optimised build may have fewer";
    assert_eq!(refusal.to_string(), told);
}

#[test]
fn the_same_component_without_that_code_loads() {
    assert!(engine(Limits::SHIPPED).load(&plugin_with(0)).is_ok());
}
