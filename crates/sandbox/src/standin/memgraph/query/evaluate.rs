//! Running the clauses of a query on a state of the data.

use super::super::graph::{Change, Content, Vertex, VertexId};
use super::super::scalar::Scalar;
use super::ast::{Aggregate, Assignment, Clause, Cypher, Expression, Item, Pattern, Return};
use super::operators::{binary, by_keys};
use bolt::packstream::{Node, OwnedValue, Structure, Value};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;
use thiserror::Error;

/// Why a query failed while it ran.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(in super::super) enum EvaluationError {
    /// In the words of a real server.
    #[error("{0}")]
    Refused(String),
    /// Somebody else changed the same vertex.
    #[error(
        "Cannot resolve conflicting transactions. Retry this transaction when the conflicting transaction is finished. For more details, visit https://memgraph.com/docs"
    )]
    Conflict,
}

/// What a transaction sees and has done so far.
pub(in super::super) struct View {
    /// The data as it was, with what the transaction did.
    pub(in super::super) content: Arc<Content>,
    /// What it did.
    pub(in super::super) changes: Vec<Change>,
    /// Gives out numbers for new vertices.
    pub(in super::super) next_id: Box<dyn FnMut() -> VertexId + Send>,
    /// Takes the right to change a vertex.
    pub(in super::super) claim: Box<dyn FnMut(VertexId) -> Result<(), EvaluationError> + Send>,
}

/// How much a query changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Stats {
    pub(in super::super) created: i64,
    pub(in super::super) deleted: i64,
    pub(in super::super) labels: i64,
    pub(in super::super) properties: i64,
}

/// The result of a query.
pub(in super::super) struct Evaluated {
    pub(in super::super) rows: Vec<Vec<OwnedValue>>,
    pub(in super::super) stats: Stats,
}

#[derive(Clone, Debug)]
enum Binding {
    Vertex(VertexId),
    Value(Scalar),
}

type Row = BTreeMap<String, Binding>;

/// Runs a query.
pub(in super::super) fn evaluate(
    query: &Cypher,
    parameters: &BTreeMap<String, Scalar>,
    view: &mut View,
) -> Result<Evaluated, EvaluationError> {
    let mut run = Run {
        parameters,
        view,
        stats: Stats::default(),
    };
    let mut rows = vec![Row::new()];
    for clause in &query.clauses {
        if let Clause::Return(returning) = clause {
            let rows = run.returning(returning, &rows)?;
            return Ok(Evaluated {
                rows,
                stats: run.stats,
            });
        }
        rows = run.clause(clause, rows)?;
    }
    Ok(Evaluated {
        rows: Vec::new(),
        stats: run.stats,
    })
}

struct Run<'a> {
    parameters: &'a BTreeMap<String, Scalar>,
    view: &'a mut View,
    stats: Stats,
}

pub(super) fn refused<T>(text: impl Into<String>) -> Result<T, EvaluationError> {
    Err(EvaluationError::Refused(text.into()))
}

impl Run<'_> {
    fn clause(&mut self, clause: &Clause, rows: Vec<Row>) -> Result<Vec<Row>, EvaluationError> {
        let mut after = Vec::new();
        for row in rows {
            self.step(clause, row, &mut after)?;
        }
        Ok(after)
    }

    /// One row through one clause.
    fn step(&mut self, clause: &Clause, mut row: Row, after: &mut Vec<Row>) -> Result<(), EvaluationError> {
        match clause {
            Clause::Match {
                pattern,
                filter,
                optional,
            } => return self.matching(pattern, filter.as_ref(), *optional, &row, after),
            Clause::Unwind { list, variable } => {
                let Scalar::List(values) = self.value(list, &row)? else {
                    return refused("Argument of UNWIND must be a list.");
                };
                for value in values {
                    let mut next = row.clone();
                    next.insert(variable.clone(), Binding::Value(value));
                    after.push(next);
                }
                return Ok(());
            }
            Clause::Create(patterns) => {
                for pattern in patterns {
                    self.create(pattern, &mut row)?;
                }
            }
            Clause::Merge {
                pattern,
                on_create,
                on_match,
            } => return self.merge(pattern, on_create, on_match, row, after),
            Clause::Set(assignments) => self.set(assignments, &row)?,
            Clause::Remove(keys) => {
                for (variable, key) in keys {
                    self.assign(variable, key, Scalar::Null, &row)?;
                }
            }
            Clause::Delete(variables) => {
                for variable in variables {
                    self.delete(variable, &row)?;
                }
            }
            Clause::Return(_) => {}
        }
        after.push(row);
        Ok(())
    }

    fn matching(
        &self,
        pattern: &Pattern,
        filter: Option<&Expression>,
        optional: bool,
        row: &Row,
        after: &mut Vec<Row>,
    ) -> Result<(), EvaluationError> {
        let before = after.len();
        for id in self.found(pattern, row)? {
            let mut next = row.clone();
            bind(pattern, Binding::Vertex(id), &mut next);
            let kept = match filter {
                None => true,
                Some(filter) => self.value(filter, &next)? == Scalar::Bool(true),
            };
            if kept {
                after.push(next);
            }
        }
        if optional && after.len() == before {
            let mut next = row.clone();
            bind(pattern, Binding::Value(Scalar::Null), &mut next);
            after.push(next);
        }
        Ok(())
    }

    fn found(&self, pattern: &Pattern, row: &Row) -> Result<Vec<VertexId>, EvaluationError> {
        let mut wanted = Vec::new();
        for (key, value) in &pattern.properties {
            wanted.push((key, self.value(value, row)?));
        }
        let bound = match pattern.variable.as_ref().and_then(|variable| row.get(variable)) {
            Some(Binding::Vertex(id)) => Some(*id),
            Some(Binding::Value(_)) => return Ok(Vec::new()),
            None => None,
        };
        let fits = |vertex: &Vertex| {
            pattern.labels.iter().all(|label| vertex.labels.contains(label))
                && wanted.iter().all(|(key, value)| {
                    vertex
                        .properties
                        .get(*key)
                        .is_some_and(|has| has.compare(value) == Some(Ordering::Equal))
                })
        };
        let vertices = &self.view.content.vertices;
        Ok(match bound {
            Some(id) => vertices
                .get(&id)
                .filter(|v| fits(v))
                .map(|_| id)
                .into_iter()
                .collect(),
            None => vertices
                .iter()
                .filter(|(_, vertex)| fits(vertex))
                .map(|(id, _)| *id)
                .collect(),
        })
    }

    fn create(&mut self, pattern: &Pattern, row: &mut Row) -> Result<(), EvaluationError> {
        let mut vertex = Vertex {
            labels: pattern.labels.iter().cloned().collect(),
            properties: BTreeMap::new(),
        };
        for (key, value) in &pattern.properties {
            let value = self.value(value, row)?;
            if value != Scalar::Null {
                vertex.properties.insert(key.clone(), value);
            }
        }
        self.stats.created += 1;
        self.stats.labels += i64::try_from(vertex.labels.len()).unwrap_or(i64::MAX);
        let id = (self.view.next_id)();
        self.change(Change::Create { id, vertex });
        bind(pattern, Binding::Vertex(id), row);
        Ok(())
    }

    fn merge(
        &mut self,
        pattern: &Pattern,
        on_create: &[Assignment],
        on_match: &[Assignment],
        mut row: Row,
        after: &mut Vec<Row>,
    ) -> Result<(), EvaluationError> {
        let found = self.found(pattern, &row)?;
        if found.is_empty() {
            self.create(pattern, &mut row)?;
            self.set(on_create, &row)?;
            after.push(row);
            return Ok(());
        }
        for id in found {
            let mut next = row.clone();
            bind(pattern, Binding::Vertex(id), &mut next);
            self.set(on_match, &next)?;
            after.push(next);
        }
        Ok(())
    }

    fn set(&mut self, assignments: &[Assignment], row: &Row) -> Result<(), EvaluationError> {
        for Assignment { variable, key, value } in assignments {
            let value = self.value(value, row)?;
            self.assign(variable, key, value, row)?;
        }
        Ok(())
    }

    fn assign(&mut self, variable: &str, key: &str, value: Scalar, row: &Row) -> Result<(), EvaluationError> {
        let Some(id) = vertex(variable, row)? else {
            return Ok(());
        };
        (self.view.claim)(id)?;
        self.stats.properties += 1;
        self.change(Change::Set {
            id,
            key: key.to_owned(),
            value,
        });
        Ok(())
    }

    fn delete(&mut self, variable: &str, row: &Row) -> Result<(), EvaluationError> {
        let Some(id) = vertex(variable, row)? else {
            return Ok(());
        };
        if self.view.content.vertices.contains_key(&id) {
            (self.view.claim)(id)?;
            self.stats.deleted += 1;
            self.change(Change::Delete { id });
        }
        Ok(())
    }

    fn change(&mut self, change: Change) {
        Arc::make_mut(&mut self.view.content).apply(&change);
        self.view.changes.push(change);
    }

    fn returning(&self, returning: &Return, rows: &[Row]) -> Result<Vec<Vec<OwnedValue>>, EvaluationError> {
        let Return {
            items,
            order,
            skip,
            limit,
        } = returning;
        let mut keyed = Vec::new();
        if items.iter().any(|item| item.value.aggregates()) {
            keyed.push((Vec::new(), self.aggregated(items, rows)?));
        } else {
            for row in rows {
                let mut values = Vec::new();
                let mut known = row.clone();
                for Item { value, name } in items {
                    values.push(self.shown(value, row)?);
                    if let Ok(value) = self.value(value, row) {
                        known.insert(name.clone(), Binding::Value(value));
                    }
                }
                let mut keys = Vec::new();
                for (key, falling) in order {
                    keys.push((self.value(key, &known)?, *falling));
                }
                keyed.push((keys, values));
            }
        }
        keyed.sort_by(|(a, _), (b, _)| by_keys(a, b));
        let count = |limit: &Option<Expression>, otherwise| match limit {
            None => Ok(otherwise),
            Some(limit) => match self.value(limit, &Row::new())? {
                Scalar::Int(count) if count >= 0 => Ok(usize::try_from(count).unwrap_or(usize::MAX)),
                _ => refused("Limit on number of returned elements must be a non-negative integer."),
            },
        };
        Ok(keyed
            .into_iter()
            .skip(count(skip, 0)?)
            .take(count(limit, usize::MAX)?)
            .map(|(_, values)| values)
            .collect())
    }

    fn aggregated(&self, items: &[Item], rows: &[Row]) -> Result<Vec<OwnedValue>, EvaluationError> {
        items
            .iter()
            .map(|item| match &item.value {
                Expression::Count(variable) => {
                    let counted = rows.iter().filter(|row| match variable {
                        None => true,
                        Some(variable) => {
                            !matches!(row.get(variable), None | Some(Binding::Value(Scalar::Null)))
                        }
                    });
                    Ok(Value::Int(i64::try_from(counted.count()).unwrap_or(i64::MAX)))
                }
                Expression::Aggregate(aggregate, inner) => {
                    let mut values = Vec::new();
                    for row in rows {
                        match self.value(inner, row)? {
                            Scalar::Null => {}
                            value => values.push(value),
                        }
                    }
                    let best = |wanted: Ordering, values: Vec<Scalar>| {
                        values
                            .into_iter()
                            .reduce(|a, b| if b.compare(&a) == Some(wanted) { b } else { a })
                    };
                    let value = match aggregate {
                        Aggregate::Max => best(Ordering::Greater, values),
                        Aggregate::Min => best(Ordering::Less, values),
                        Aggregate::Collect => Some(Scalar::List(values)),
                    };
                    Ok(value.unwrap_or(Scalar::Null).to_bolt())
                }
                plain => match rows.first() {
                    Some(row) => self.shown(plain, row),
                    None => Ok(Value::Null),
                },
            })
            .collect()
    }

    /// A value as a client sees it: a vertex is a node.
    fn shown(&self, expression: &Expression, row: &Row) -> Result<OwnedValue, EvaluationError> {
        if let Expression::Variable(name) = expression
            && let Some(Binding::Vertex(id)) = row.get(name)
        {
            return Ok(node(*id, self.view.content.vertices.get(id)));
        }
        Ok(self.value(expression, row)?.to_bolt())
    }

    fn value(&self, expression: &Expression, row: &Row) -> Result<Scalar, EvaluationError> {
        Ok(match expression {
            Expression::Literal(value) => value.clone(),
            Expression::Parameter(name) => match self.parameters.get(name) {
                Some(value) => value.clone(),
                None => return refused(format!("Parameter ${name} not provided.")),
            },
            Expression::Variable(name) => match row.get(name) {
                Some(Binding::Value(value)) => value.clone(),
                Some(Binding::Vertex(id)) => Scalar::Int(i64::try_from(*id).unwrap_or(i64::MAX)),
                None => return refused(format!("Unbound variable: {name}.")),
            },
            Expression::Property(variable, key) => match row.get(variable) {
                Some(Binding::Vertex(id)) => self
                    .view
                    .content
                    .vertices
                    .get(id)
                    .and_then(|vertex| vertex.properties.get(key))
                    .cloned()
                    .unwrap_or(Scalar::Null),
                Some(Binding::Value(Scalar::Map(entries))) => {
                    entries.get(key).cloned().unwrap_or(Scalar::Null)
                }
                Some(Binding::Value(Scalar::Null)) => Scalar::Null,
                Some(Binding::Value(_)) => {
                    return refused(
                        "Only nodes, edges, maps, temporal types, points and graphs have properties to be looked-up.",
                    );
                }
                None => return refused(format!("Unbound variable: {variable}.")),
            },
            Expression::List(values) => {
                let values: Result<_, _> = values.iter().map(|value| self.value(value, row)).collect();
                Scalar::List(values?)
            }
            Expression::Range(from, to) => match (self.value(from, row)?, self.value(to, row)?) {
                (Scalar::Int(from), Scalar::Int(to)) => Scalar::List((from..=to).map(Scalar::Int).collect()),
                _ => return refused("'range' requires argument of type 'integer'."),
            },
            Expression::Count(_) | Expression::Aggregate(..) => {
                return refused("Aggregation functions are not allowed here.");
            }
            Expression::IsNull(inner, wanted) => {
                Scalar::Bool((self.value(inner, row)? == Scalar::Null) == *wanted)
            }
            Expression::Not(inner) => match self.value(inner, row)? {
                Scalar::Bool(value) => Scalar::Bool(!value),
                _ => Scalar::Null,
            },
            Expression::Binary(operator, left, right) => {
                binary(*operator, &self.value(left, row)?, &self.value(right, row)?)?
            }
        })
    }
}

fn bind(pattern: &Pattern, binding: Binding, row: &mut Row) {
    if let Some(variable) = &pattern.variable {
        row.insert(variable.clone(), binding);
    }
}

fn vertex(variable: &str, row: &Row) -> Result<Option<VertexId>, EvaluationError> {
    match row.get(variable) {
        Some(Binding::Vertex(id)) => Ok(Some(*id)),
        Some(Binding::Value(_)) => Ok(None),
        None => refused(format!("Unbound variable: {variable}.")),
    }
}

fn node(id: VertexId, vertex: Option<&Vertex>) -> OwnedValue {
    let Some(Vertex { labels, properties }) = vertex else {
        return Value::Null;
    };
    let number = i64::try_from(id).unwrap_or(i64::MAX);
    Value::from(Structure::Node(Node {
        id: number,
        labels: labels.iter().map(|label| Cow::Owned(label.clone())).collect(),
        properties: properties
            .iter()
            .map(|(key, value)| (Cow::Owned(key.clone()), value.to_bolt()))
            .collect(),
        element_id: Some(Cow::Owned(number.to_string())),
    }))
}
