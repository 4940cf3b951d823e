//! What one client asks, carried out.

use super::disk::Trigger;
use super::explain::{Summary, index_title};
use super::graph::Change;
use super::info;
use super::node::Node;
use super::query::{Administration, Cypher, Definition, ParseError, Query, User, parse};
use super::scalar::Scalar;
use super::texts::{self, Transaction as Kind};
use super::transaction::{Rows, Transaction};
use bolt::message::{AccessMode, Amount, Extra, Failure, Run};
use bolt::packstream::{OwnedDict, OwnedValue, Value};
use sim::memgraph::instance::{Error, Profile, Role};
use std::collections::{BTreeMap, VecDeque};
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A client between two requests.
pub(super) struct Client {
    node: Arc<Node>,
    transaction: Option<Transaction>,
    result: Option<Open>,
    committing: Arc<AtomicBool>,
}

/// A query that was begun.
enum Open {
    /// Not carried out yet: that happens when it is pulled.
    Prepared {
        query: Query,
        parameters: BTreeMap<String, Scalar>,
    },
    /// Rows that wait, and what is to be committed after the last one.
    Rows {
        rows: VecDeque<Vec<OwnedValue>>,
        summary: Summary,
        automatic: Option<Transaction>,
        /// `BEGIN` and its like as queries: nothing is said about them.
        silent: bool,
    },
}

/// An answer to PULL.
pub(super) struct Page {
    pub(super) records: Vec<Vec<OwnedValue>>,
    pub(super) outcome: Result<OwnedDict, Failure<'static>>,
    pub(super) has_more: bool,
}

impl Client {
    pub(super) fn new(node: &Arc<Node>) -> Self {
        Self {
            node: Arc::clone(node),
            transaction: None,
            result: None,
            committing: Arc::default(),
        }
    }

    /// Whether a commit of this client is under way, for whoever cannot ask it meanwhile.
    pub(super) fn committing(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.committing)
    }

    async fn finish(&self, transaction: Transaction, kind: Kind) -> Result<Option<String>, Failure<'static>> {
        self.committing.store(true, Ordering::Relaxed);
        let done = transaction.commit(kind).await;
        self.committing.store(false, Ordering::Relaxed);
        done
    }

    pub(super) const fn in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// Transaction and result are gone.
    pub(super) fn forget(&mut self) {
        self.transaction = None;
        self.result = None;
    }

    pub(super) fn begin(&mut self, extra: &Extra<'_>) -> Result<(), Failure<'static>> {
        known_database(extra)?;
        self.transaction = Some(Transaction::new(&self.node, extra.mode()));
        Ok(())
    }

    pub(super) async fn commit(&mut self) -> Result<OwnedDict, Failure<'static>> {
        self.result = None;
        let Some(transaction) = self.transaction.take() else {
            return Err(Failure::NOTHING_TO_COMMIT);
        };
        let mut summary = Summary::default();
        if let Some(warning) = self.finish(transaction, Kind::Explicit).await? {
            summary.warn(warning);
        }
        Ok(summary.metadata())
    }

    /// RUN: reads the query and says which columns it has.
    pub(super) fn prepare(
        &mut self,
        run: &Run<'_>,
        in_transaction: bool,
    ) -> Result<Vec<String>, Failure<'static>> {
        known_database(&run.extra)?;
        let query = parse(&run.query, self.node.config.profile).map_err(|error| match error {
            ParseError::Syntax { .. } | ParseError::Semantic(_) => Failure::client(error.to_string()),
        })?;
        self.allowed(&query, in_transaction)?;
        let mut parameters = BTreeMap::new();
        for (key, value) in &run.parameters {
            let scalar = Scalar::from_bolt(value)
                .ok_or_else(|| Failure::client(format!("The stand-in cannot store parameter ${key}.")))?;
            parameters.insert(key.to_string(), scalar);
        }
        let columns = match &query {
            Query::Cypher(cypher) => cypher.columns(),
            Query::Administration(Administration::Show(show)) => info::columns(*show)
                .iter()
                .map(|column| (*column).to_owned())
                .collect(),
            Query::Administration(Administration::CreateSnapshot) => vec!["path".to_owned()],
            Query::Administration(_)
            | Query::Definition(_)
            | Query::Begin
            | Query::Commit
            | Query::Rollback => Vec::new(),
        };
        self.result = Some(Open::Prepared { query, parameters });
        Ok(columns)
    }

    /// What is refused before anything runs.
    fn allowed(&self, query: &Query, in_transaction: bool) -> Result<(), Failure<'static>> {
        let replica = self.node.core().model.role() == Role::Replica;
        let refuse = |text: &str| Err(Failure::client(text.to_owned()));
        match query {
            Query::Administration(what) if in_transaction && what.is_replication() => refuse(
                &texts::not_in_transaction(self.node.config.profile, "Managing replication is"),
            ),
            Query::Administration(Administration::User(_)) if replica => refuse(texts::USERS_ON_REPLICA),
            Query::Definition(_) if replica => refuse(texts::WRITE_ON_REPLICA),
            Query::Definition(_) if in_transaction => refuse(&texts::not_in_transaction(
                self.node.config.profile,
                "Index manipulation",
            )),
            Query::Cypher(cypher) if replica && cypher.writes() => refuse(texts::WRITE_ON_REPLICA),
            Query::Cypher(cypher) => match &self.transaction {
                Some(transaction) if transaction.mode == AccessMode::Read && cypher.writes() => {
                    refuse("Accessor type READ and query type WRITE are misaligned!")
                }
                _ => Ok(()),
            },
            Query::Administration(_)
            | Query::Definition(_)
            | Query::Begin
            | Query::Commit
            | Query::Rollback => Ok(()),
        }
    }

    /// PULL or DISCARD.
    pub(super) async fn fetch(&mut self, amount: Amount) -> Page {
        let failed = |failure| Page {
            records: Vec::new(),
            outcome: Err(failure),
            has_more: false,
        };
        let open = match self.result.take() {
            Some(Open::Prepared { query, parameters }) => match self.carry_out(query, parameters).await {
                Ok(open) => open,
                Err(failure) => return failed(failure),
            },
            Some(open) => open,
            None => return failed(Failure::UNEXPECTED),
        };
        let Open::Rows {
            mut rows,
            mut summary,
            automatic,
            silent,
        } = open
        else {
            return failed(Failure::UNEXPECTED);
        };
        let count = match amount {
            Amount::All => rows.len(),
            Amount::AtMost(count) => rows.len().min(usize::try_from(count).unwrap_or(usize::MAX)),
        };
        let records = rows.drain(..count).collect();
        if !rows.is_empty() {
            self.result = Some(Open::Rows {
                rows,
                summary,
                automatic,
                silent,
            });
            return Page {
                records,
                outcome: Ok(OwnedDict::new()),
                has_more: true,
            };
        }
        let outcome = match automatic {
            None => Ok(None),
            Some(transaction) => self.finish(transaction, Kind::Automatic).await,
        };
        let outcome = outcome.map(|warning| {
            if let Some(warning) = warning {
                summary.warn(warning);
            }
            if silent {
                OwnedDict::new()
            } else {
                summary.metadata()
            }
        });
        Page {
            records,
            outcome,
            has_more: false,
        }
    }

    async fn carry_out(
        &mut self,
        query: Query,
        parameters: BTreeMap<String, Scalar>,
    ) -> Result<Open, Failure<'static>> {
        let silent = || Open::Rows {
            rows: VecDeque::new(),
            summary: Summary::default(),
            automatic: None,
            silent: true,
        };
        match query {
            Query::Begin if self.transaction.is_some() => Err(Failure::NESTED_TRANSACTION),
            Query::Begin => {
                self.transaction = Some(Transaction::new(&self.node, AccessMode::Write));
                Ok(silent())
            }
            Query::Commit => {
                self.commit().await?;
                Ok(silent())
            }
            Query::Rollback => match self.transaction.take() {
                Some(_) => Ok(silent()),
                None => Err(Failure::NOTHING_TO_ROLL_BACK),
            },
            Query::Cypher(cypher) => self.run(&cypher, &parameters).await,
            Query::Definition(definition) => self.define(definition).await,
            Query::Administration(what) => {
                let (rows, summary) = administer(&self.node, what).await?;
                Ok(Open::Rows {
                    rows: rows.into(),
                    summary,
                    automatic: None,
                    silent: false,
                })
            }
        }
    }

    async fn run(
        &mut self,
        cypher: &Cypher,
        parameters: &BTreeMap<String, Scalar>,
    ) -> Result<Open, Failure<'static>> {
        let (Rows { rows, summary }, automatic) = if let Some(transaction) = &mut self.transaction {
            (transaction.run(cypher, parameters).await?, None)
        } else {
            let mut transaction = Transaction::new(&self.node, AccessMode::Write);
            let rows = transaction.run(cypher, parameters).await?;
            (rows, Some(transaction))
        };
        Ok(Open::Rows {
            rows: rows.into(),
            summary,
            automatic,
            silent: false,
        })
    }

    async fn define(&self, definition: Definition) -> Result<Open, Failure<'static>> {
        let summary = Summary::new("w");
        let (change, summary) = match definition {
            Definition::CreateIndex(index) => {
                let title = index_title("Created", &index);
                (
                    Change::CreateIndex(index),
                    summary.with_note("CreateIndex", title),
                )
            }
            Definition::DropIndex(index) => {
                let title = index_title("Dropped", &index);
                (Change::DropIndex(index), summary.with_note("DropIndex", title))
            }
            Definition::CreateEnum { name, values } => (Change::CreateEnum { name, values }, summary),
            Definition::AddEnumValue { name, value } => {
                if !self.node.core().model.store().0.enums.contains_key(&name) {
                    return Err(Failure::client(format!("Enum '{name}' does not exist.")));
                }
                (Change::AddEnumValue { name, value }, summary)
            }
        };
        let mut transaction = Transaction::new(&self.node, AccessMode::Write);
        transaction.define(change).await;
        Ok(Open::Rows {
            rows: VecDeque::new(),
            summary,
            automatic: Some(transaction),
            silent: false,
        })
    }
}

fn known_database(extra: &Extra<'_>) -> Result<(), Failure<'static>> {
    match extra.database() {
        None | Some("" | "memgraph") => Ok(()),
        Some(other) => Err(Failure::transient(format!(
            "Tried to retrieve an unknown database \"{other}\"."
        ))),
    }
}

/// What changes roles or registrations is in the log, as a real server has it. Nobody reads it: no harm.
fn log(command: &str) {
    let _: std::io::Result<()> = writeln!(std::io::stderr(), "standin: {command}");
}

/// Everything that is not about data.
async fn administer(
    node: &Arc<Node>,
    what: Administration,
) -> Result<(Vec<Vec<OwnedValue>>, Summary), Failure<'static>> {
    let summary = Summary::new("rw");
    match what {
        Administration::PromoteToMain => {
            log("SET REPLICATION ROLE TO MAIN");
            node.promote().await?;
            let summary = summary.with_note("SetReplica", "Replica role set to MAIN.");
            Ok((Vec::new(), summary))
        }
        Administration::DemoteToReplica { port } => {
            log(&format!("SET REPLICATION ROLE TO REPLICA WITH PORT {port}"));
            node.demote(port).await?;
            let summary = summary.with_note("SetReplica", "Replica role set to REPLICA.");
            Ok((Vec::new(), summary))
        }
        Administration::Register { name, mode, address } => {
            log(&format!("REGISTER REPLICA {name} TO {address}"));
            node.register(&name, mode, &address).await?;
            let title = format!("Replica {name} is registered.");
            Ok((Vec::new(), summary.with_note("RegisterReplica", title)))
        }
        Administration::Drop { name } => {
            log(&format!("DROP REPLICA {name}"));
            node.drop_replica(&name).await?;
            let title = format!("Replica {name} is dropped.");
            Ok((Vec::new(), summary.with_note("DropReplica", title)))
        }
        Administration::Show(show) => Ok((node.show(show).await?, summary)),
        Administration::CreateSnapshot => {
            let path = snapshot(node).await?;
            Ok((vec![vec![Value::from(path)]], summary))
        }
        Administration::User(user) => change_user(node, user, summary).await,
        Administration::CreateTrigger {
            name,
            statement,
            event,
            phase,
        } => {
            let trigger = Trigger {
                statement,
                event,
                phase,
            };
            let saved = {
                let mut core = node.core();
                if core.triggers.contains_key(&name) {
                    return Err(Failure::client("Trigger with the same name already exists."));
                }
                core.triggers.insert(name.clone(), trigger);
                core.disk.save_triggers(&core.triggers)
            };
            node.written(saved).await;
            let title = format!("Created trigger {name}.");
            Ok((Vec::new(), summary.with_note("CreateTrigger", title)))
        }
        Administration::DropTrigger { name } => {
            let saved = {
                let mut core = node.core();
                if core.triggers.remove(&name).is_none() {
                    return Err(Failure::client(format!(
                        "Trigger with name '{name}' doesn't exist"
                    )));
                }
                core.disk.save_triggers(&core.triggers)
            };
            node.written(saved).await;
            let title = format!("Dropped trigger {name}.");
            Ok((Vec::new(), summary.with_note("DropTrigger", title)))
        }
    }
}

/// `CREATE SNAPSHOT`: where it is.
async fn snapshot(node: &Arc<Node>) -> Result<String, Failure<'static>> {
    let _engine = node.engine.lock().await;
    let saved = {
        let mut core = node.core();
        core.model.take_snapshot().map_err(|error| match error {
            Error::ReplicaSnapshot => Failure::transient(
                "Failed to create a snapshot. Replica instances are not allowed to create them.",
            ),
            other => Failure::transient(format!("Failed to create a snapshot. {other}")),
        })?;
        core.save_snapshot()
    };
    match saved {
        Ok(path) => Ok(path.map_or_else(String::new, |path| path.to_string_lossy().into_owned())),
        Err(error) => Err(Failure::transient(error.to_string())),
    }
}

async fn change_user(
    node: &Arc<Node>,
    user: User,
    summary: Summary,
) -> Result<(Vec<Vec<OwnedValue>>, Summary), Failure<'static>> {
    let (saved, summary) = {
        let mut core = node.core();
        let summary = match user {
            User::Create {
                name,
                password,
                if_not_exists,
            } => {
                if core.users.contains_key(&name) {
                    if if_not_exists {
                        return Ok((Vec::new(), summary));
                    }
                    return Err(Failure::client(format!("User '{name}' already exists.")));
                }
                core.users.insert(name.clone(), password);
                match node.config.profile {
                    Profile::V3_6 | Profile::V3_9 => summary,
                    Profile::V3_12 | Profile::Next => summary.with_note(
                        "CreateUser",
                        format!("User '{name}' created. All privileges granted."),
                    ),
                }
            }
            User::Drop { name } => {
                if core.users.remove(&name).is_none() {
                    return Err(Failure::client(format!("User '{name}' doesn't exist.")));
                }
                summary
            }
            User::SetPassword { name, password } => match core.users.get_mut(&name) {
                Some(known) => {
                    *known = password;
                    summary
                }
                None => return Err(Failure::client(format!("User '{name}' doesn't exist."))),
            },
        };
        (core.disk.save_users(&core.users), summary)
    };
    node.written(saved).await;
    Ok((Vec::new(), summary))
}
