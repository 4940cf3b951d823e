//! What a query says.

use super::super::graph::Index;
use super::super::scalar::Scalar;
use sim::memgraph::instance::Mode;

/// One query.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) enum Query {
    Begin,
    Commit,
    Rollback,
    Administration(Administration),
    /// A change of the schema, which is a commit of its own.
    Definition(Definition),
    Cypher(Cypher),
}

/// Something that is neither read from nor written to the graph.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) enum Administration {
    PromoteToMain,
    /// The port is checked when the query runs, not when it is read.
    DemoteToReplica {
        port: i64,
    },
    Register {
        name: String,
        mode: Mode,
        address: String,
    },
    Drop {
        name: String,
    },
    Show(Show),
    CreateSnapshot,
    User(User),
    CreateTrigger {
        name: String,
        statement: String,
        event: String,
        phase: String,
    },
    DropTrigger {
        name: String,
    },
}

impl Administration {
    /// Not allowed in an explicit transaction.
    pub(in super::super) const fn is_replication(&self) -> bool {
        match self {
            Self::PromoteToMain
            | Self::DemoteToReplica { .. }
            | Self::Register { .. }
            | Self::Drop { .. }
            | Self::Show(Show::Replicas | Show::Role) => true,
            Self::Show(_)
            | Self::CreateSnapshot
            | Self::User(_)
            | Self::CreateTrigger { .. }
            | Self::DropTrigger { .. } => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Show {
    Replicas,
    Role,
    Version,
    Storage(Scope),
    License,
    Build,
    Config,
    Indexes,
    Snapshots,
    Users,
    Enums,
    Triggers,
}

/// Which storage info is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Scope {
    Instance,
    Database,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum User {
    Create {
        name: String,
        password: Option<String>,
        if_not_exists: bool,
    },
    Drop {
        name: String,
    },
    SetPassword {
        name: String,
        password: Option<String>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Definition {
    CreateIndex(Index),
    DropIndex(Index),
    CreateEnum { name: String, values: Vec<String> },
    AddEnumValue { name: String, value: String },
}

/// Clauses in order.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Cypher {
    pub(super) clauses: Vec<Clause>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Clause {
    Match {
        pattern: Pattern,
        filter: Option<Expression>,
        optional: bool,
    },
    Unwind {
        list: Expression,
        variable: String,
    },
    Create(Vec<Pattern>),
    Merge {
        pattern: Pattern,
        on_create: Vec<Assignment>,
        on_match: Vec<Assignment>,
    },
    Set(Vec<Assignment>),
    Remove(Vec<(String, String)>),
    Delete(Vec<String>),
    Return(Return),
}

impl Clause {
    pub(super) const fn reads(&self) -> bool {
        matches!(self, Self::Match { .. } | Self::Merge { .. })
    }

    pub(super) const fn writes(&self) -> bool {
        matches!(
            self,
            Self::Create(_) | Self::Merge { .. } | Self::Set(_) | Self::Remove(_) | Self::Delete(_)
        )
    }
}

/// One node: `(n:Label {key: value})`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pattern {
    pub(super) variable: Option<String>,
    pub(super) labels: Vec<String>,
    pub(super) properties: Vec<(String, Expression)>,
}

/// `variable.key = value`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Assignment {
    pub(super) variable: String,
    pub(super) key: String,
    pub(super) value: Expression,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Return {
    pub(super) items: Vec<Item>,
    pub(super) order: Vec<(Expression, bool)>,
    pub(super) skip: Option<Expression>,
    pub(super) limit: Option<Expression>,
}

/// A column: what, and under which name.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Item {
    pub(super) value: Expression,
    pub(super) name: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expression {
    Literal(Scalar),
    Parameter(String),
    Variable(String),
    Property(String, String),
    List(Vec<Self>),
    Range(Box<Self>, Box<Self>),
    /// `count(*)` or `count(variable)`.
    Count(Option<String>),
    /// `max(expression)`, `min(expression)`, `collect(expression)`.
    Aggregate(Aggregate, Box<Self>),
    Binary(Operator, Box<Self>, Box<Self>),
    IsNull(Box<Self>, bool),
    Not(Box<Self>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aggregate {
    Max,
    Min,
    Collect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    Add,
    Subtract,
    Multiply,
    Divide,
}

impl Expression {
    pub(super) fn aggregates(&self) -> bool {
        match self {
            Self::Count(_) | Self::Aggregate(..) => true,
            Self::Binary(_, a, b) | Self::Range(a, b) => a.aggregates() || b.aggregates(),
            Self::IsNull(inner, _) | Self::Not(inner) => inner.aggregates(),
            Self::Literal(_)
            | Self::Parameter(_)
            | Self::Variable(_)
            | Self::Property(..)
            | Self::List(_) => false,
        }
    }
}

impl Cypher {
    /// Whether it changes anything: refused on a replica when it is read.
    pub(in super::super) fn writes(&self) -> bool {
        self.clauses.iter().any(Clause::writes)
    }

    /// What the summary calls it. A query without the graph is `rw` to a real server.
    pub(in super::super) fn kind(&self) -> &'static str {
        match (self.clauses.iter().any(Clause::reads), self.writes()) {
            (true, false) => "r",
            (false, true) => "w",
            (true, true) | (false, false) => "rw",
        }
    }

    /// What is looked for by label: symbol, labels, properties.
    pub(in super::super) fn scans(&self) -> Vec<(String, Vec<String>, Vec<String>)> {
        let mut anonymous = 0;
        let mut scans = Vec::new();
        for clause in &self.clauses {
            let (Clause::Match { pattern, .. } | Clause::Merge { pattern, .. }) = clause else {
                continue;
            };
            let symbol = pattern.variable.clone().unwrap_or_else(|| {
                anonymous += 1;
                format!("anon{anonymous}")
            });
            if !pattern.labels.is_empty() {
                let keys = pattern.properties.iter().map(|(key, _)| key.clone()).collect();
                scans.push((symbol, pattern.labels.clone(), keys));
            }
        }
        scans
    }

    /// The columns of the result.
    pub(in super::super) fn columns(&self) -> Vec<String> {
        match self.clauses.last() {
            Some(Clause::Return(Return { items, .. })) => {
                items.iter().map(|item| item.name.clone()).collect()
            }
            _ => Vec::new(),
        }
    }
}
