//! Tables in Arrow's memory, which other libraries read through its C interface without copying.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchIterator,
    RecordBatchReader, StringArray,
};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{DataType, Field, Schema};
use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};

/// A table. Libraries read it without copying: `pyarrow.table(t)`, `polars.from_arrow(t)`,
/// `duckdb.from_arrow(t)`.
#[pyclass(frozen, module = "prairie._prairie")]
pub struct Table {
    pub batch: RecordBatch,
}

/// A column as Python gives it: its name, its type, its values, and its metadata.
type Column<'py> = (String, String, Bound<'py, PyList>, HashMap<String, String>);

#[pymethods]
impl Table {
    #[new]
    fn new(columns: Vec<Column<'_>>, metadata: HashMap<String, String>) -> PyResult<Table> {
        let mut fields = Vec::new();
        let mut arrays = Vec::new();
        for (name, kind, values, about) in columns {
            let array = array(&name, &kind, &values)?;
            fields.push(Field::new(name, array.data_type().clone(), true).with_metadata(about));
            arrays.push(array);
        }
        let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
        let batch = match arrays.is_empty() {
            true => Ok(RecordBatch::new_empty(schema)),
            false => RecordBatch::try_new(schema, arrays),
        };
        let batch = batch.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Table { batch })
    }

    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.batch.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The type of each column, in Arrow's words.
    #[getter]
    fn column_types(&self) -> Vec<String> {
        self.batch.schema().fields().iter().map(|field| field.data_type().to_string()).collect()
    }

    /// What is known of a column: its unit and its meaning.
    fn column_metadata(&self, name: &str) -> PyResult<HashMap<String, String>> {
        let schema = self.batch.schema();
        let field = schema.field_with_name(name).map_err(|_| self.unknown(name))?;
        Ok(field.metadata().clone().into())
    }

    /// Where the table comes from.
    #[getter]
    fn metadata(&self) -> HashMap<String, String> {
        self.batch.schema().metadata().clone().into()
    }

    /// Number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.batch.num_rows()
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    /// The values of a column as a list.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let array = self.batch.column_by_name(name).ok_or_else(|| self.unknown(name))?;
        list(py, array)
    }

    /// The table as a `pyarrow.Table`, which shares its memory.
    fn to_arrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("pyarrow")?.getattr("table")?.call1((slf,))
    }

    /// The table as a `pandas.DataFrame`.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Table::to_arrow(slf)?.call_method0("to_pandas")
    }

    /// The table as a `polars.DataFrame`, which shares its memory.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("polars")?.getattr("DataFrame")?.call1((slf,))
    }

    fn __repr__(&self) -> String {
        let (rows, columns) = (self.batch.num_rows(), self.column_names().join(", "));
        format!("<Table: {rows} rows; columns: {columns}>")
    }

    /// The first rows, for notebooks.
    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        const SHOWN: usize = 20;
        let head = self.batch.slice(0, self.batch.num_rows().min(SHOWN));
        let escape = py.import("html")?.getattr("escape")?;
        let cell = |text: Bound<'_, PyAny>| escape.call1((text.str()?,))?.extract::<String>();
        let mut heads = String::new();
        let mut rows = vec![String::new(); head.num_rows()];
        for (field, array) in head.schema().fields().iter().zip(head.columns()) {
            heads += &format!("<th>{}</th>", cell(field.name().into_pyobject(py)?.into_any())?);
            for (row, value) in rows.iter_mut().zip(list(py, array)?.try_iter()?) {
                *row += &format!("<td>{}</td>", cell(value?)?);
            }
        }
        let rows: String = rows.iter().map(|row| format!("<tr>{row}</tr>")).collect();
        let count = self.batch.num_rows();
        let more = if count > SHOWN { format!("<p>{count} rows</p>") } else { String::new() };
        Ok(format!("<table><tr>{heads}</tr>{rows}</table>{more}"))
    }

    /// The schema as a capsule of Arrow's C interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.batch.schema())
    }

    /// The table as a capsule of Arrow's C interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A requested schema is a wish that a producer may ignore.
        drop(requested_schema);
        let batches = vec![Ok(self.batch.clone())];
        stream_capsule(py, Box::new(RecordBatchIterator::new(batches, self.batch.schema())))
    }
}

impl Table {
    fn unknown(&self, name: &str) -> PyErr {
        let names = self.column_names().join(", ");
        PyKeyError::new_err(format!("{name}: no such column, expected one of {names}"))
    }
}

/// A schema for another library.
pub fn schema_capsule<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema);
    let schema = schema.map_err(|error| PyValueError::new_err(error.to_string()))?;
    PyCapsule::new_with_value(py, schema, c"arrow_schema")
}

/// A stream of batches for another library. Dropping an unused capsule releases it.
pub fn stream_capsule<'py>(
    py: Python<'py>,
    reader: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), c"arrow_array_stream")
}

/// The values of a column, checked.
fn array(name: &str, kind: &str, values: &Bound<'_, PyList>) -> PyResult<ArrayRef> {
    let wrong = |error: PyErr| {
        let text = format!("column {name}: expected values of type {kind}: {error}");
        PyTypeError::new_err(text)
    };
    Ok(match kind {
        "int64" => Arc::new(Int64Array::from(each(values).map_err(wrong)?)),
        "float64" => Arc::new(Float64Array::from(each(values).map_err(wrong)?)),
        "bool" => Arc::new(BooleanArray::from(each(values).map_err(wrong)?)),
        "string" => Arc::new(StringArray::from(each::<String>(values).map_err(wrong)?)),
        _ => {
            let known = "int64, float64, bool, or string";
            return Err(PyTypeError::new_err(format!("column {name}: {kind}: expected {known}")));
        }
    })
}

fn each<T>(values: &Bound<'_, PyList>) -> PyResult<Vec<Option<T>>>
where
    T: for<'a, 'py> FromPyObject<'a, 'py, Error = PyErr>,
{
    values.iter().map(|value| value.extract()).collect()
}

/// A column as Python values.
fn list<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Bound<'py, PyAny>> {
    let values = match array.data_type() {
        DataType::Int64 => {
            array.as_primitive::<Int64Type>().iter().collect::<Vec<_>>().into_pyobject(py)?
        }
        DataType::Float64 => {
            array.as_primitive::<Float64Type>().iter().collect::<Vec<_>>().into_pyobject(py)?
        }
        DataType::Boolean => array.as_boolean().iter().collect::<Vec<_>>().into_pyobject(py)?,
        DataType::Dictionary(_, _) => {
            let values = array.as_any_dictionary();
            let names = values.values().as_string::<i32>().clone();
            let keys = values.normalized_keys();
            let name = |(at, key): (usize, &usize)| array.is_valid(at).then(|| names.value(*key));
            keys.iter().enumerate().map(name).collect::<Vec<_>>().into_pyobject(py)?
        }
        _ => array.as_string::<i32>().iter().collect::<Vec<_>>().into_pyobject(py)?,
    };
    Ok(values.into_any())
}
