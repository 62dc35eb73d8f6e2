//! What compiling a component would take, told from its code before it is compiled: a compilation cannot be stopped, so what
//! would take minutes and gigabytes must not begin.
//!
//! The compiler's time and memory follow the values that are alive where code branches: a kilobyte of branches among a
//! thousand variables takes as long as a megabyte of plain code. So each instruction counts for one, and each place where
//! code branches for every variable and every value on the stack there.

use wasmparser::{
    FuncToValidate, FuncValidatorAllocations, FunctionBody, Operator, Parser, ValidPayload, Validator,
    ValidatorResources, WasmFeatures,
};

/// What compiling a component may take. The shipped plugins take up to 440 thousand, the Python ones, the largest seen, 9.3
/// million. Of code that is made to be slow so many took up to a minute and 300 MB, on two cores that had other work too.
const EFFORT_MAX: u64 = 50_000_000;

/// What a function counts for however short it is.
const FUNCTION_EFFORT: u64 = 100;

/// Whether compiling this component takes more than it may.
pub(crate) fn is_too_much(bytes: &[u8]) -> bool {
    effort(bytes) > EFFORT_MAX
}

/// What compiling this component takes; counted until it is too much. What is not valid counts for nothing: the compiler
/// refuses it by itself, and says why.
fn effort(bytes: &[u8]) -> u64 {
    // More than any engine takes, so that nothing that it would compile is taken for invalid here.
    let mut validator = Validator::new_with_features(WasmFeatures::all());
    let mut allocations = FuncValidatorAllocations::default();
    let mut effort = 0_u64;
    for payload in Parser::new(0).parse_all(bytes) {
        let Ok(payload) = payload else { return 0 };
        match validator.payload(&payload) {
            Ok(ValidPayload::Func(function, body)) => {
                let Some(more) = function_effort(function, &body, &mut allocations) else { return 0 };
                effort = effort.saturating_add(more);
            }
            Ok(ValidPayload::Ok | ValidPayload::Parser(_) | ValidPayload::End(_)) => {}
            Err(_) => return 0,
        }
        if effort > EFFORT_MAX {
            break;
        }
    }
    effort
}

fn function_effort(
    function: FuncToValidate<ValidatorResources>,
    body: &FunctionBody<'_>,
    allocations: &mut FuncValidatorAllocations,
) -> Option<u64> {
    let mut validator = function.into_validator(std::mem::take(allocations));
    let mut reader = body.get_binary_reader();
    validator.read_locals(&mut reader).ok()?;
    let mut effort = FUNCTION_EFFORT;
    let mut operators = body.get_operators_reader().ok()?;
    while !operators.eof() {
        let (operator, offset) = operators.read_with_offset().ok()?;
        validator.op(offset, &operator).ok()?;
        let alive = u64::from(validator.len_locals()) + u64::from(validator.operand_stack_height());
        effort = effort.saturating_add(1 + alive.saturating_mul(ways(&operator)));
    }
    *allocations = validator.into_allocations();
    Some(effort)
}

/// How many ways code can go on after an instruction that it branches at.
fn ways(operator: &Operator<'_>) -> u64 {
    match operator {
        Operator::Block { .. }
        | Operator::Loop { .. }
        | Operator::If { .. }
        | Operator::Else
        | Operator::TryTable { .. }
        | Operator::Br { .. }
        | Operator::BrIf { .. }
        | Operator::BrOnNull { .. }
        | Operator::BrOnNonNull { .. } => 1,
        Operator::BrTable { targets } => u64::from(targets.len()) + 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effort_of(function: &str) -> u64 {
        effort(&wat::parse_str(format!("(component (core module {function}))")).unwrap())
    }

    #[test]
    fn plain_code_counts_by_its_instructions() {
        // The end of a function is one.
        assert_eq!(effort_of("(func)"), FUNCTION_EFFORT + 1);
        assert_eq!(effort_of("(func (local i32 i64) nop nop)"), FUNCTION_EFFORT + 3);
        assert_eq!(effort_of("(func) (func)"), 2 * (FUNCTION_EFFORT + 1));
    }

    #[test]
    fn a_branch_counts_for_what_is_alive_there() {
        let branching =
            |body: &str, locals: &str| effort_of(&format!("(func (local {locals}) {body})")) - FUNCTION_EFFORT;
        // Three instructions: the block, its end and the function's.
        assert_eq!(branching("(block)", ""), 3);
        assert_eq!(branching("(block)", "i32 i32 i32 i32 i32"), 3 + 5);
        assert_eq!(branching("(loop)", "i32 i32"), 3 + 2);
        assert_eq!(branching("(block (br 0))", "i32"), 4 + 2);
        // A value on the stack, once as the condition and once below the block.
        assert_eq!(branching("(block (br_if 0 (i32.const 1)))", "i32"), 5 + 2);
        assert_eq!(branching("(i32.const 1) (block) (drop)", "i32"), 5 + 2);
        assert_eq!(branching("(if (i32.const 1) (then) (else))", "i32"), 5 + 2);
        // Two targets and the default, beside the two blocks.
        assert_eq!(branching("(block (block (br_table 0 1 0 (i32.const 1))))", "i32"), 7 + 2 + 3);
    }

    #[test]
    fn what_is_not_valid_is_left_to_the_compiler() {
        assert_eq!(effort_of("(func (result i32))"), 0);
        assert_eq!(effort(b"\0asm nonsense"), 0);
        assert!(!is_too_much(b""));
    }

    #[test]
    fn counting_ends_when_it_is_too_much() {
        let locals = "i32 ".repeat(10_000);
        let blocks = "(block)".repeat(6_000);
        let one = format!("(func (local {locals}) {blocks})");
        let least = effort_of(&one);
        assert!(least > EFFORT_MAX);
        assert_eq!(effort_of(&format!("{one} {one}")), least);
    }
}
