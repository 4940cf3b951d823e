//! Comparing and calculating.

use super::super::scalar::Scalar;
use super::ast::Operator;
use super::evaluate::{EvaluationError, refused};
use std::cmp::Ordering;

pub(super) fn by_keys(a: &[(Scalar, bool)], b: &[(Scalar, bool)]) -> Ordering {
    a.iter()
        .zip(b)
        .map(|((a, falling), (b, _))| {
            // Null is greater than anything else.
            let order = match (a, b) {
                (Scalar::Null, Scalar::Null) => Ordering::Equal,
                (Scalar::Null, _) => Ordering::Greater,
                (_, Scalar::Null) => Ordering::Less,
                _ => a.compare(b).unwrap_or(Ordering::Equal),
            };
            if *falling { order.reverse() } else { order }
        })
        .find(|order| *order != Ordering::Equal)
        .unwrap_or(Ordering::Equal)
}

pub(super) fn binary(operator: Operator, left: &Scalar, right: &Scalar) -> Result<Scalar, EvaluationError> {
    let compared = |wanted: &[Ordering]| match left.compare(right) {
        Some(order) => Scalar::Bool(wanted.contains(&order)),
        None => Scalar::Null,
    };
    Ok(match operator {
        Operator::And => match (left, right) {
            (Scalar::Bool(false), _) | (_, Scalar::Bool(false)) => Scalar::Bool(false),
            (Scalar::Bool(true), Scalar::Bool(true)) => Scalar::Bool(true),
            _ => Scalar::Null,
        },
        Operator::Or => match (left, right) {
            (Scalar::Bool(true), _) | (_, Scalar::Bool(true)) => Scalar::Bool(true),
            (Scalar::Bool(false), Scalar::Bool(false)) => Scalar::Bool(false),
            _ => Scalar::Null,
        },
        Operator::Equal if *left != Scalar::Null && *right != Scalar::Null => {
            Scalar::Bool(left.compare(right) == Some(Ordering::Equal))
        }
        Operator::NotEqual if *left != Scalar::Null && *right != Scalar::Null => {
            Scalar::Bool(left.compare(right) != Some(Ordering::Equal))
        }
        Operator::Equal | Operator::NotEqual => Scalar::Null,
        Operator::Less => compared(&[Ordering::Less]),
        Operator::LessOrEqual => compared(&[Ordering::Less, Ordering::Equal]),
        Operator::Greater => compared(&[Ordering::Greater]),
        Operator::GreaterOrEqual => compared(&[Ordering::Greater, Ordering::Equal]),
        Operator::In => match right {
            Scalar::List(values) => Scalar::Bool(
                values
                    .iter()
                    .any(|value| left.compare(value) == Some(Ordering::Equal)),
            ),
            _ => Scalar::Null,
        },
        Operator::Add | Operator::Subtract | Operator::Multiply | Operator::Divide => {
            return arithmetic(operator, left, right);
        }
    })
}

fn arithmetic(operator: Operator, left: &Scalar, right: &Scalar) -> Result<Scalar, EvaluationError> {
    let result = match (operator, left, right) {
        (_, Scalar::Null, _) | (_, _, Scalar::Null) => Some(Scalar::Null),
        (Operator::Add, Scalar::Int(a), Scalar::Int(b)) => a.checked_add(*b).map(Scalar::Int),
        (Operator::Subtract, Scalar::Int(a), Scalar::Int(b)) => a.checked_sub(*b).map(Scalar::Int),
        (Operator::Multiply, Scalar::Int(a), Scalar::Int(b)) => a.checked_mul(*b).map(Scalar::Int),
        (Operator::Divide, Scalar::Int(a), Scalar::Int(b)) => a.checked_div(*b).map(Scalar::Int),
        (Operator::Add, Scalar::Text(a), Scalar::Text(b)) => Some(Scalar::Text(format!("{a}{b}"))),
        _ => None,
    };
    let sign = match operator {
        Operator::Subtract => "-",
        Operator::Multiply => "*",
        Operator::Divide => "/",
        _ => "+",
    };
    // Also what a division by zero is called.
    result.map_or_else(
        || {
            refused(format!(
                "Invalid types: {} and {} for '{sign}'.",
                kind(left),
                kind(right)
            ))
        },
        Ok,
    )
}

const fn kind(value: &Scalar) -> &'static str {
    match value {
        Scalar::Null => "null",
        Scalar::Bool(_) => "bool",
        Scalar::Int(_) => "int",
        Scalar::Float(_) => "double",
        Scalar::Text(_) => "string",
        Scalar::List(_) => "list",
        Scalar::Map(_) => "map",
    }
}
