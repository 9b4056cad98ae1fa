import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.StreamCorruptedException;
import java.util.*;
import java.util.function.Consumer;
import java.util.zip.ZipException;
import org.apache.iceberg.*;
import org.apache.iceberg.catalog.*;
import org.apache.iceberg.encryption.EncryptionManager;
import org.apache.iceberg.exceptions.ForbiddenException;
import org.apache.iceberg.exceptions.NoSuchNamespaceException;
import org.apache.iceberg.exceptions.NotFoundException;
import org.apache.iceberg.exceptions.RuntimeIOException;
import org.apache.iceberg.exceptions.CommitStateUnknownException;
import org.apache.iceberg.exceptions.ValidationException;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.expressions.Literal;
import org.apache.iceberg.hadoop.HadoopCatalog;
import org.apache.iceberg.hadoop.HadoopTableOperations;
import org.apache.iceberg.inmemory.InMemoryFileIO;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.FileInfo;
import org.apache.iceberg.io.LocationProvider;
import org.apache.iceberg.io.SupportsBulkOperations;
import org.apache.iceberg.io.SupportsPrefixOperations;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.JsonNode;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.iceberg.types.Types;

/**
 * What the mirror asks of Iceberg, one call and one JSON document each: calls from Python cost more
 * than what they do here. Janino compiles it, which knows no generics: hence the casts.
 */
public class Lake {
  private final ObjectMapper mapper = new ObjectMapper();

  private TableIdentifier name(String namespace, String table) {
    return TableIdentifier.of(Namespace.of(new String[] {namespace}), table);
  }

  private JsonNode list(JsonNode request, String key) {
    JsonNode found = (JsonNode) request.get(key);
    return found == null ? (JsonNode) mapper.createArrayNode() : found;
  }

  private String text(JsonNode node, String key) {
    return ((JsonNode) node.get(key)).asText();
  }

  /** The catalog itself. Iceberg's cache in front of it shows earlier states of tables, and has no methods for namespaces. */
  private Catalog direct(Catalog catalog) throws Exception {
    return catalog instanceof CachingCatalog ? (Catalog) field(catalog, CachingCatalog.class, "catalog") : catalog;
  }

  private Object field(Object of, Class owner, String name) throws Exception {
    java.lang.reflect.Field found = owner.getDeclaredField(name);
    found.setAccessible(true);
    return found.get(of);
  }

  /** The directory of a Hadoop catalog; null for another one. */
  public String directory(Catalog catalog) throws Exception {
    Catalog found = direct(catalog);
    return found instanceof HadoopCatalog ? (String) field(found, HadoopCatalog.class, "warehouseLocation") : null;
  }

  /** Whether the catalog has a table, also one that `load` cannot read. */
  public boolean exists(Catalog catalog, String namespace, String table) throws Exception {
    try {
      return direct(catalog).tableExists(name(namespace, table));
    } catch (NotFoundException error) {
      return true;
    } catch (RuntimeException error) {
      if (ofMetadataFile(error) != error) {
        return true;
      }
      throw error;
    }
  }

  /** Load a table from the catalog; Spark's next query does the same. */
  public Table load(Catalog catalog, String namespace, String table) throws Exception {
    catalog.invalidateTable(name(namespace, table));
    try {
      return following(catalog, direct(catalog).loadTable(name(namespace, table)), name(namespace, table));
    } catch (RuntimeException error) {
      throw ofMetadataFile(error);
    }
  }

  /** A table that finds its newest metadata also if that of the version that it knows has been removed. */
  private Table following(Catalog catalog, Table table, TableIdentifier name) throws Exception {
    TableOperations operations = ((HasTableOperations) table).operations();
    if (!(operations instanceof HadoopTableOperations)) {
      return table; // other catalogs keep the location of the newest
    }
    return new BaseTable(new Following(operations, direct(catalog), name), table.name());
  }

  public void refresh(Table table) throws Exception {
    try {
      table.refresh();
    } catch (RuntimeException error) {
      throw ofMetadataFile(error);
    }
  }

  /** The error that names a metadata file of a table which is missing or damaged; other errors are returned as they are. */
  private Exception ofMetadataFile(RuntimeException error) {
    String message = String.valueOf(error.getMessage());
    if (Following.isOfRemovedVersion(error)) {
      return new NotFoundException(error, "%s", new Object[] {message});
    }
    // not the answer of a REST catalog, which may come from a proxy
    if (!(error instanceof RuntimeIOException) || !message.startsWith("Failed to read file")) {
      return error;
    }
    for (Throwable cause = error.getCause(); cause != null; cause = cause.getCause()) {
      if (cause instanceof ZipException || cause.getClass().getName().contains(".jackson.") || isChecksum(cause)) {
        return new StreamCorruptedException(message);
      }
    }
    return error;
  }

  /** Whether Hadoop's local file system has found that a file differs from its checksums. */
  private boolean isChecksum(Throwable error) {
    return error.getClass().getName().equals("org.apache.hadoop.fs.ChecksumException");
  }

  /**
   * The first manifest, or manifest list, of the current snapshot whose bytes can be read but not decoded; null if there is
   * none. An exception says that the store does not return the bytes.
   */
  public String damaged(Table table) throws Exception {
    Snapshot head = table.currentSnapshot();
    String list = head == null ? null : head.manifestListLocation();
    if (list == null) {
      return null;
    }
    // what is decoded is what was read: a store that fails in between is no damage
    InMemoryFileIO copy = new InMemoryFileIO();
    Iterator manifests = null;
    if (!isRead(table.io(), list, 0, copy)) {
      return list;
    }
    try {
      manifests = head.allManifests(copy).iterator();
    } catch (Exception error) {
      return list;
    }
    while (manifests.hasNext()) {
      ManifestFile manifest = (ManifestFile) manifests.next();
      if (!isRead(table.io(), manifest.path(), manifest.length(), copy) || !isDecodable(manifest, copy, table)) {
        return manifest.path();
      }
    }
    return null;
  }

  /** Copies a file; false if it is too short, or differs from its checksums. */
  private boolean isRead(FileIO io, String path, long length, InMemoryFileIO copy) throws IOException {
    byte[] bytes = new byte[65536];
    ByteArrayOutputStream content = new ByteArrayOutputStream();
    InputStream stream = io.newInputFile(path).newStream();
    try {
      for (int count = stream.read(bytes); count >= 0; count = stream.read(bytes)) {
        content.write(bytes, 0, count);
      }
    } catch (IOException error) {
      if (!isChecksum(error)) {
        throw error;
      }
      return false;
    } finally {
      stream.close();
    }
    copy.addFile(path, content.toByteArray());
    return content.size() >= length;
  }

  private boolean isDecodable(ManifestFile manifest, FileIO copy, Table table) {
    try {
      CloseableIterable entries =
          manifest.content() == ManifestContent.DATA
              ? (CloseableIterable) ManifestFiles.read(manifest, copy, table.specs())
              : (CloseableIterable) ManifestFiles.readDeleteManifest(manifest, copy, table.specs());
      try {
        Iterator each = entries.iterator();
        while (each.hasNext()) {
          each.next();
        }
      } finally {
        entries.close();
      }
      return true;
    } catch (Exception error) {
      return false;
    }
  }

  public boolean drop(Catalog catalog, String namespace, String table) {
    return catalog.dropTable(name(namespace, table), true);
  }

  public String tables(Catalog catalog) throws Exception {
    ArrayNode all = mapper.createArrayNode();
    Iterator spaces = ((SupportsNamespaces) direct(catalog)).listNamespaces().iterator();
    while (spaces.hasNext()) {
      Namespace space = (Namespace) spaces.next();
      Iterator tables;
      try {
        tables = catalog.listTables(space).iterator();
      } catch (NoSuchNamespaceException error) {
        continue; // dropped meanwhile
      } catch (ForbiddenException error) {
        continue; // of other users
      }
      while (tables.hasNext()) {
        TableIdentifier found = (TableIdentifier) tables.next();
        ArrayNode pair = all.addArray();
        pair.add(space.toString());
        pair.add(found.name());
      }
    }
    return mapper.writeValueAsString(all);
  }

  public Table create(Catalog catalog, String json) throws Exception {
    JsonNode request = mapper.readTree(json);
    Namespace space = Namespace.of(new String[] {text(request, "namespace")});
    SupportsNamespaces spaces = (SupportsNamespaces) direct(catalog);
    if (!spaces.namespaceExists(space)) {
      spaces.createNamespace(space, new HashMap());
    }
    Schema schema = SchemaParser.fromJson((JsonNode) request.get("schema"));
    TableIdentifier name = TableIdentifier.of(space, text(request, "table"));
    PartitionSpec spec = partitioned(schema, list(request, "partition"));
    Table made = catalog.createTable(name, schema, spec, (String) null, properties(request));
    return following(catalog, made, name);
  }

  /** An empty table in the place of one that is there, whose snapshots stay until they expire, or with their tags. */
  public Table replace(Catalog catalog, String json) throws Exception {
    JsonNode request = mapper.readTree(json);
    TableIdentifier name = name(text(request, "namespace"), text(request, "table"));
    Schema schema = SchemaParser.fromJson((JsonNode) request.get("schema"));
    Map properties = properties(request);
    PartitionSpec spec = partitioned(schema, list(request, "partition"));
    Table old = direct(catalog).loadTable(name);
    Transaction transaction =
        catalog.newReplaceTableTransaction(name, schema, spec, old.location(), properties, false);
    UpdateProperties update = transaction.updateProperties();
    Iterator known = old.properties().keySet().iterator();
    while (known.hasNext()) {
      String key = (String) known.next();
      if (key.startsWith("binlake.") && !properties.containsKey(key)) {
        update.remove(key);
      }
    }
    update.commit();
    transaction.commitTransaction();
    return following(catalog, catalog.loadTable(name), name);
  }

  private Map properties(JsonNode request) {
    Map properties = new HashMap();
    Iterator fields = ((JsonNode) request.get("properties")).fields();
    while (fields.hasNext()) {
      Map.Entry entry = (Map.Entry) fields.next();
      properties.put(entry.getKey(), ((JsonNode) entry.getValue()).asText());
    }
    return properties;
  }

  private PartitionSpec partitioned(Schema schema, JsonNode fields) {
    PartitionSpec.Builder spec = PartitionSpec.builderFor(schema);
    for (int i = 0; i < fields.size(); i++) {
      JsonNode field = (JsonNode) fields.get(i);
      String transform = text(field, "transform");
      String column = text(field, "column");
      int width = ((JsonNode) field.get("width")).asInt();
      if (transform.equals("identity")) {
        spec.identity(column);
      } else if (transform.equals("bucket")) {
        spec.bucket(column, width);
      } else if (transform.equals("truncate")) {
        spec.truncate(column, width);
      } else if (transform.equals("year")) {
        spec.year(column);
      } else if (transform.equals("month")) {
        spec.month(column);
      } else if (transform.equals("day")) {
        spec.day(column);
      } else if (transform.equals("hour")) {
        spec.hour(column);
      } else {
        throw new IllegalArgumentException(transform);
      }
    }
    return spec.build();
  }

  public String describe(Table table) throws Exception {
    ObjectNode out = mapper.createObjectNode();
    out.put("location", table.location());
    out.put("uuid", table.uuid().toString());
    out.put("format_version", ((HasTableOperations) table).operations().current().formatVersion());
    out.set("schema", mapper.readTree(SchemaParser.toJson(table.schema())));
    out.set("spec", mapper.readTree(PartitionSpecParser.toJson(table.spec())));
    out.set("properties", mapper.valueToTree(table.properties()));
    Snapshot head = table.currentSnapshot();
    if (head != null) {
      out.put("snapshot", head.snapshotId());
      out.put("committed_ms", head.timestampMillis());
      out.set("summary", mapper.valueToTree(head.summary()));
      if (head.parentId() != null) {
        out.put("parent", head.parentId().longValue());
      }
    }
    return mapper.writeValueAsString(out);
  }

  public String data(Table table, String name) {
    return table.locationProvider().newDataLocation(name);
  }

  public String history(Table table) throws Exception {
    ArrayNode all = mapper.createArrayNode();
    Iterator snapshots = table.snapshots().iterator();
    while (snapshots.hasNext()) {
      Snapshot one = (Snapshot) snapshots.next();
      ObjectNode entry = all.addObject();
      entry.put("snapshot", one.snapshotId());
      entry.put("operation", one.operation());
      entry.put("committed_ms", one.timestampMillis());
      if (one.parentId() != null) {
        entry.put("parent", one.parentId().longValue());
      }
      entry.set("summary", mapper.valueToTree(one.summary()));
    }
    return mapper.writeValueAsString(all);
  }

  /** The data files of the current snapshot, each with the deletes that belong to it. */
  public String files(Table table) throws Exception {
    ObjectNode out = mapper.createObjectNode();
    ArrayNode data = out.putArray("data");
    ObjectNode deletes = out.putObject("deletes");
    if (table.currentSnapshot() == null) {
      return mapper.writeValueAsString(out);
    }
    CloseableIterable tasks = table.newScan().planFiles();
    try {
      Iterator each = tasks.iterator();
      while (each.hasNext()) {
        FileScanTask task = (FileScanTask) each.next();
        PartitionSpec spec = (PartitionSpec) table.specs().get(Integer.valueOf(task.file().specId()));
        ObjectNode entry = data.addObject();
        DataFile plain = (DataFile) task.file().copyWithoutStats();
        entry.put("path", plain.location());
        entry.put("rows", plain.recordCount());
        entry.put("bytes", plain.fileSizeInBytes());
        entry.set("file", mapper.readTree(ContentFileParser.toJson(plain, spec)));
        ArrayNode of = entry.putArray("deletes");
        Iterator found = task.deletes().iterator();
        while (found.hasNext()) {
          DeleteFile file = (DeleteFile) found.next();
          String id = file.location() + "#" + file.contentOffset();
          of.add(id);
          // it may have been written with another spec: one without fields applies to the files of all specs
          PartitionSpec own = (PartitionSpec) table.specs().get(Integer.valueOf(file.specId()));
          deletes.set(id, mapper.readTree(ContentFileParser.toJson(file, own)));
        }
      }
    } finally {
      tasks.close();
    }
    return mapper.writeValueAsString(out);
  }

  private void evolve(UpdateSchema update, JsonNode steps) {
    for (int i = 0; i < steps.size(); i++) {
      JsonNode step = (JsonNode) steps.get(i);
      String kind = text(step, "do");
      if (kind.equals("add")) {
        add(update, text(step, "name"), field(step));
      } else if (kind.equals("drop")) {
        update.deleteColumn(text(step, "name"));
      } else if (kind.equals("rename")) {
        update.renameColumn(text(step, "name"), text(step, "to"));
      } else if (kind.equals("widen")) {
        update.updateColumn(text(step, "name"), field(step).type().asPrimitiveType());
      } else if (kind.equals("first")) {
        update.moveFirst(text(step, "name"));
      } else if (kind.equals("after")) {
        update.moveAfter(text(step, "name"), text(step, "other"));
      } else {
        throw new IllegalArgumentException(kind);
      }
    }
  }

  /**
   * Add a column. Its initial default is the value of the rows of all files that lack it. It has no write default: the
   * mirror writes every column, and other writers must not take a value that the server may have changed since. A name
   * with a period is refused unless the parent is given, here none.
   */
  private void add(UpdateSchema update, String name, Types.NestedField field) {
    if (field.initialDefaultLiteral() == null) {
      update.addColumn((String) null, name, field.type());
    } else {
      update.addColumn((String) null, name, field.type(), field.initialDefaultLiteral());
      update.updateColumnDefault(name, (Literal) null);
    }
  }

  /** The one field of the schema that a step carries. */
  private Types.NestedField field(JsonNode step) {
    Schema one = SchemaParser.fromJson((JsonNode) step.get("schema"));
    return (Types.NestedField) one.columns().get(0);
  }

  /** The operations of a table, to be extended. */
  private abstract static class Forwarding implements TableOperations {
    protected volatile TableOperations table;

    Forwarding(TableOperations table) {
      this.table = table;
    }

    public TableMetadata current() {
      return table.current();
    }

    public TableMetadata refresh() {
      return table.refresh();
    }

    public void commit(TableMetadata base, TableMetadata metadata) {
      table.commit(base, metadata);
    }

    public FileIO io() {
      return table.io();
    }

    public EncryptionManager encryption() {
      return table.encryption();
    }

    public String metadataFileLocation(String fileName) {
      return table.metadataFileLocation(fileName);
    }

    public LocationProvider locationProvider() {
      return table.locationProvider();
    }

    public TableOperations temp(TableMetadata uncommitted) {
      return table.temp(uncommitted);
    }

    public long newSnapshotId() {
      return table.newSnapshotId();
    }

    public boolean requireStrictCleanup() {
      return table.requireStrictCleanup();
    }
  }

  /**
   * Those of a table of the Hadoop catalog. It looks for the newest metadata from the version that it knows, and fails if
   * this one has been removed, as it is after more commits of others than `write.metadata.previous-versions-max`.
   */
  private static class Following extends Forwarding {
    private final Catalog catalog;
    private final TableIdentifier name;
    private final String uuid;

    Following(TableOperations table, Catalog catalog, TableIdentifier name) {
      super(table);
      this.uuid = table.current().uuid();
      this.catalog = catalog;
      this.name = name;
    }

    static boolean isOfRemovedVersion(RuntimeException error) {
      return error instanceof ValidationException
          && String.valueOf(error.getMessage()).startsWith("Metadata file for version");
    }

    /** After a commit, it reads the newest metadata, too. */
    public TableMetadata current() {
      try {
        return table.current();
      } catch (ValidationException error) {
        return found(error);
      }
    }

    public TableMetadata refresh() {
      try {
        return table.refresh();
      } catch (ValidationException error) {
        return found(error);
      }
    }

    private TableMetadata found(ValidationException error) {
      if (!isOfRemovedVersion(error)) {
        throw error;
      }
      TableOperations now;
      try {
        now = ((HasTableOperations) catalog.loadTable(name)).operations();
      } catch (RuntimeException none) {
        throw error;
      }
      if (!Objects.equals(now.current().uuid(), uuid)) {
        throw error; // another table has the name now
      }
      table = now;
      return now.current();
    }
  }

  /** The operations of a table for one commit, which fails unless `check` accepts the metadata that it replaces. */
  private abstract static class Guarded extends Forwarding {
    private long made = -1L; // the new snapshot of the last attempt to commit; -1: there was none

    Guarded(Table table) {
      super(((HasTableOperations) table).operations());
    }

    /** Why the metadata is not as the commit expects it; null if it is. */
    abstract String why(TableMetadata found);

    TableMetadata checked(TableMetadata found) {
      String why = why(found);
      if (why != null) {
        // Iceberg removes the manifests of commits that fail with this exception, and does not try again
        throw new ValidationException("binlake: " + why, new Object[0]);
      }
      return found;
    }

    /** Iceberg calls it before each attempt to commit. */
    public TableMetadata refresh() {
      TableMetadata found = table.refresh();
      if (made != -1L && found.snapshot(made) != null) {
        // its answer was lost, for example behind a proxy that sends requests again. Iceberg removes no file after this
        throw new CommitStateUnknownException(
            new IllegalStateException("the catalog has refused a commit that the table has"));
      }
      return checked(found);
    }

    /** Replaces `base` only: each catalog refuses if it is not its newest metadata. */
    public void commit(TableMetadata base, TableMetadata metadata) {
      checked(base);
      long before = base.currentSnapshot() == null ? -1L : base.currentSnapshot().snapshotId();
      long after = metadata.currentSnapshot() == null ? -1L : metadata.currentSnapshot().snapshotId();
      made = after == before ? -1L : after;
      table.commit(base, metadata);
    }
  }

  /**
   * Refuses another current snapshot than `head`. Without it, Iceberg applies the commit on top of the snapshots that
   * other writers add in the meantime, and accepts rows that the table has already. Other changes of the metadata, such
   * as tags and properties, do not make the commit fail.
   */
  private static class AtHead extends Guarded {
    private final long head;

    AtHead(Table table, long head) {
      super(table);
      this.head = head;
    }

    String why(TableMetadata found) {
      long now = found.currentSnapshot() == null ? -1L : found.currentSnapshot().snapshotId();
      return now == head ? null : "head is " + now;
    }
  }

  /** Refuses properties of the table that have other values than those expected; null: no such property. */
  private static class WithProperties extends Guarded {
    private final JsonNode expected;

    WithProperties(Table table, JsonNode expected) {
      super(table);
      this.expected = expected;
    }

    String why(TableMetadata found) {
      Iterator fields = expected.fields();
      while (fields.hasNext()) {
        Map.Entry entry = (Map.Entry) fields.next();
        JsonNode value = (JsonNode) entry.getValue();
        if (!Objects.equals(value.isNull() ? null : value.asText(), found.properties().get(entry.getKey()))) {
          return "another process has set " + entry.getKey();
        }
      }
      return null;
    }
  }

  /** A transaction of one commit. */
  private Transaction begun(Table table, Guarded operations) {
    operations.checked(operations.current());
    return Transactions.newTransaction(table.name(), operations);
  }

  /** A transaction that fails unless the current snapshot is the one from which the request was made. */
  private Transaction begun(Table table, JsonNode request) throws Exception {
    table.refresh();
    return begun(table, new AtHead(table, ((JsonNode) request.get("from")).asLong()));
  }

  /** Commit, and return the snapshot's id: another writer may have added the current snapshot since. */
  private long done(Transaction transaction) {
    long made = transaction.table().currentSnapshot().snapshotId();
    transaction.commitTransaction();
    return made;
  }

  /** One atomic commit: schema, then table properties, then rows; returns the new snapshot's id. */
  public long commit(Table table, String json) throws Exception {
    JsonNode request = mapper.readTree(json);
    Transaction transaction = begun(table, request);
    JsonNode steps = list(request, "schema");
    for (int i = 0; i < steps.size(); i++) {
      UpdateSchema update = transaction.updateSchema();
      evolve(update, (JsonNode) steps.get(i));
      update.commit();
    }
    if (request.has("table-properties")) {
      set(transaction.updateProperties(), (JsonNode) request.get("table-properties"));
    }
    if (request.has("truncate")) {
      DeleteFiles all = transaction.newDelete();
      all.deleteFromRowFilter(Expressions.alwaysTrue());
      all.set("binlake.emptied", "true");
      all.commit();
    }
    rows(transaction.newRowDelta(), request, table);
    return done(transaction);
  }

  private void rows(RowDelta delta, JsonNode request, Table table) throws Exception {
    JsonNode each = list(request, "add");
    for (int i = 0; i < each.size(); i++) {
      delta.addRows((DataFile) ContentFileParser.fromJson((JsonNode) each.get(i), table.specs()));
    }
    each = list(request, "deletes");
    for (int i = 0; i < each.size(); i++) {
      delta.addDeletes((DeleteFile) ContentFileParser.fromJson((JsonNode) each.get(i), table.specs()));
    }
    each = list(request, "replaced");
    for (int i = 0; i < each.size(); i++) {
      delta.removeDeletes((DeleteFile) ContentFileParser.fromJson((JsonNode) each.get(i), table.specs()));
    }
    long head = ((JsonNode) request.get("from")).asLong();
    if (head != -1L && !request.has("truncate")) {
      // without this, Iceberg takes the deletes of all earlier snapshots for those of other writers
      delta.validateFromSnapshot(head);
    }
    summarise(delta, request);
    delta.commit();
  }

  private void summarise(SnapshotUpdate update, JsonNode request) {
    Iterator fields = ((JsonNode) request.get("properties")).fields();
    while (fields.hasNext()) {
      Map.Entry entry = (Map.Entry) fields.next();
      update.set((String) entry.getKey(), ((JsonNode) entry.getValue()).asText());
    }
  }

  /** One atomic commit that puts files in the place of others which hold the same rows. */
  public long rewrite(Table table, String json) throws Exception {
    JsonNode request = mapper.readTree(json);
    Transaction transaction = begun(table, request);
    RewriteFiles rewrite = transaction.newRewrite();
    JsonNode each = list(request, "removed");
    for (int i = 0; i < each.size(); i++) {
      rewrite.deleteFile((DataFile) ContentFileParser.fromJson((JsonNode) each.get(i), table.specs()));
    }
    each = list(request, "replaced");
    for (int i = 0; i < each.size(); i++) {
      rewrite.deleteFile((DeleteFile) ContentFileParser.fromJson((JsonNode) each.get(i), table.specs()));
    }
    each = list(request, "add");
    for (int i = 0; i < each.size(); i++) {
      rewrite.addFile((DataFile) ContentFileParser.fromJson((JsonNode) each.get(i), table.specs()));
    }
    each = list(request, "deletes");
    for (int i = 0; i < each.size(); i++) {
      rewrite.addFile((DeleteFile) ContentFileParser.fromJson((JsonNode) each.get(i), table.specs()));
    }
    rewrite.validateFromSnapshot(((JsonNode) request.get("from")).asLong());
    summarise(rewrite, request);
    rewrite.commit();
    return done(transaction);
  }

  /** Set properties of the table, and nothing else. */
  public void set(Table table, String json) throws Exception {
    set(table.updateProperties(), mapper.readTree(json));
  }

  /** The same, unless one of the properties has another value by now than `expected`. */
  public void replaceProperties(Table table, String json) throws Exception {
    JsonNode request = mapper.readTree(json);
    table.refresh();
    Transaction transaction = begun(table, new WithProperties(table, (JsonNode) request.get("expected")));
    if (comparesBranchesOnly(table)) {
      move(transaction, "binlake-properties");
    }
    set(transaction.updateProperties(), (JsonNode) request.get("set"));
    transaction.commitTransaction();
  }

  /**
   * Whether the catalog accepts a commit although another process has set properties since its base. Others replace the
   * metadata as a whole. A REST catalog applies the changes to the newest metadata if the branches, the schema and the
   * like that they concern are as they were.
   */
  private boolean comparesBranchesOnly(Table table) {
    return ((HasTableOperations) table).operations().getClass().getName().endsWith(".RESTTableOperations");
  }

  /** Add an empty snapshot to a branch beside the rows: the catalog refuses the commit if the branch has moved. */
  private void move(Transaction transaction, String branch) {
    DeleteFiles all = transaction.newDelete();
    all.deleteFromRowFilter(Expressions.alwaysTrue());
    all.toBranch(branch);
    all.commit();
  }

  private void set(UpdateProperties update, JsonNode properties) {
    Iterator fields = properties.fields();
    while (fields.hasNext()) {
      Map.Entry entry = (Map.Entry) fields.next();
      update.set((String) entry.getKey(), ((JsonNode) entry.getValue()).asText());
    }
    update.commit();
  }

  public void tag(Table table, String name) {
    if (table.currentSnapshot() != null) {
      tagAt(table, name, table.currentSnapshot().snapshotId());
    }
  }

  /** A name for one snapshot, unless there is one of that name. */
  public void tagAt(Table table, String name, long snapshot) {
    SnapshotRef there = (SnapshotRef) table.refs().get(name);
    if (there != null && !there.isTag()) {
      throw new IllegalArgumentException("it has a branch " + name);
    }
    if (there == null) {
      table.manageSnapshots().createTag(name, snapshot).commit();
    }
  }

  /** The names of the tags. */
  public String tags(Table table) throws Exception {
    table.refresh();
    ArrayNode names = mapper.createArrayNode();
    Iterator refs = table.refs().entrySet().iterator();
    while (refs.hasNext()) {
      Map.Entry entry = (Map.Entry) refs.next();
      if (((SnapshotRef) entry.getValue()).isTag()) {
        names.add((String) entry.getKey());
      }
    }
    return mapper.writeValueAsString(names);
  }

  /** The names of the tags and the branches. */
  public String refs(Table table) throws Exception {
    table.refresh();
    return mapper.writeValueAsString(new ArrayList(table.refs().keySet()));
  }

  public void dropTag(Table table, String name) {
    SnapshotRef there = (SnapshotRef) table.refs().get(name);
    if (there != null && there.isTag()) {
      table.manageSnapshots().removeTag(name).commit();
    }
  }

  /** When the newest snapshot with a property in its summary was made; the largest number if there is none. */
  private long timeOfNewest(Table table, String property) {
    Snapshot one = table.currentSnapshot();
    while (one != null && !one.summary().containsKey(property)) {
      one = one.parentId() == null ? null : table.snapshot(one.parentId().longValue());
    }
    return one == null ? Long.MAX_VALUE : one.timestampMillis();
  }

  /**
   * Forget the snapshots before a time, and more than the most; but not the newest ones, and none that is newer than
   * the newest one with the property `kept` in its summary. See `isWorthIt` for `least`.
   */
  public void expire(Table table, long olderThanMillis, int keep, int most, String kept, int least)
      throws Exception {
    ArrayList times = new ArrayList();
    Iterator snapshots = table.snapshots().iterator();
    while (snapshots.hasNext()) {
      times.add(Long.valueOf(((Snapshot) snapshots.next()).timestampMillis()));
    }
    Collections.sort(times);
    long before = olderThanMillis;
    if (times.size() > most) {
      before = Math.max(before, ((Long) times.get(times.size() - most)).longValue());
    }
    before = Math.min(before, timeOfNewest(table, kept));
    if (times.size() > keep
        && ((Long) times.get(0)).longValue() < before
        && isWorthIt(table, before, olderThanMillis, keep, most, least)) {
      final List gone = Collections.synchronizedList(new ArrayList());
      Consumer collect = new Consumer() {
        public void accept(Object path) {
          gone.add(path);
        }
      };
      table.expireSnapshots().expireOlderThan(before).retainLast(Math.min(keep, most)).deleteWith(collect).commit();
      remove(table, gone);
    }
  }

  /**
   * Whether at least so many snapshots can go, or a fiftieth of the most, or the oldest of them is twice as old as it
   * may be. Those with a name stay in any case.
   */
  private boolean isWorthIt(
      Table table, long before, long olderThanMillis, int keep, int most, int least) {
    Set named = new HashSet();
    Iterator refs = table.refs().entrySet().iterator();
    while (refs.hasNext()) {
      Map.Entry ref = (Map.Entry) refs.next();
      if (!ref.getKey().equals(SnapshotRef.MAIN_BRANCH)) {
        named.add(Long.valueOf(((SnapshotRef) ref.getValue()).snapshotId()));
      }
    }
    long oldest = Long.MAX_VALUE;
    int all = 0;
    int unnamed = 0;
    int old = 0;
    Iterator snapshots = table.snapshots().iterator();
    while (snapshots.hasNext()) {
      Snapshot one = (Snapshot) snapshots.next();
      all++;
      if (!named.contains(Long.valueOf(one.snapshotId()))) {
        unnamed++;
        old += one.timestampMillis() < before ? 1 : 0;
        oldest = Math.min(oldest, one.timestampMillis());
      }
    }
    int free = Math.min(old, unnamed - Math.min(keep, most));
    // not that of `before`, which does not change while a table has no new snapshots
    long age = System.currentTimeMillis() - olderThanMillis;
    boolean isOld = free > 0 && oldest < olderThanMillis - age;
    return least <= 1 || free >= least || all > most + most / 50 || isOld;
  }

  /**
   * Remove files that the expiry names, but none with a deletion vector that is in force. A Puffin file has those of many
   * data files, and Iceberg names it as soon as one of them has expired: what it names is that vector's path.
   */
  private void remove(Table table, List paths) throws Exception {
    boolean shared = false;
    for (int i = 0; i < paths.size(); i++) {
      shared = shared || ((String) paths.get(i)).endsWith(".puffin");
    }
    Set held = shared ? oldestDeletes(table) : new HashSet();
    List unused = new ArrayList();
    for (int i = 0; i < paths.size(); i++) {
      if (!held.contains(paths.get(i))) {
        unused.add(paths.get(i));
      }
    }
    FileIO io = table.io();
    try {
      if (io instanceof SupportsBulkOperations) {
        ((SupportsBulkOperations) io).deleteFiles(unused);
      } else {
        for (int i = 0; i < unused.size(); i++) {
          io.deleteFile((String) unused.get(i));
        }
      }
    } catch (RuntimeException error) {
      // those that are left are orphans now, and are removed as such
    }
  }

  /**
   * The delete files of the oldest snapshot that is left. A file that was named is older than it, so
   * what it has in force in any snapshot it has in force there.
   */
  private Set oldestDeletes(Table table) throws Exception {
    table.refresh();
    Snapshot oldest = null;
    Iterator snapshots = table.snapshots().iterator();
    while (snapshots.hasNext()) {
      Snapshot one = (Snapshot) snapshots.next();
      if (oldest == null || one.sequenceNumber() < oldest.sequenceNumber()) {
        oldest = one;
      }
    }
    Set paths = new HashSet();
    Iterator manifests = oldest.deleteManifests(table.io()).iterator();
    while (manifests.hasNext()) {
      addLocations(ManifestFiles.readDeleteManifest((ManifestFile) manifests.next(), table.io(), table.specs()), paths);
    }
    return paths;
  }

  private void addLocations(CloseableIterable files, Set paths) throws Exception {
    try {
      Iterator entries = files.iterator();
      while (entries.hasNext()) {
        paths.add(((ContentFile) entries.next()).location());
      }
    } finally {
      files.close();
    }
  }

  private String base(String path) {
    return path.substring(path.lastIndexOf('/') + 1);
  }

  /** The names of all data, delete and manifest files that a snapshot knows. */
  private Set known(Table table) throws Exception {
    Set names = new HashSet();
    Set read = new HashSet();
    Iterator snapshots = table.snapshots().iterator();
    while (snapshots.hasNext()) {
      Snapshot one = (Snapshot) snapshots.next();
      names.add(base(one.manifestListLocation()));
      Iterator manifests = one.allManifests(table.io()).iterator();
      while (manifests.hasNext()) {
        ManifestFile manifest = (ManifestFile) manifests.next();
        names.add(base(manifest.path()));
        if (!read.add(manifest.path())) {
          continue;
        }
        CloseableIterable files = manifest.content() == ManifestContent.DATA
            ? (CloseableIterable) ManifestFiles.read(manifest, table.io(), table.specs())
            : (CloseableIterable) ManifestFiles.readDeleteManifest(manifest, table.io(), table.specs());
        try {
          Iterator entries = files.iterator();
          while (entries.hasNext()) {
            names.add(base(((ContentFile) entries.next()).location()));
          }
        } finally {
          files.close();
        }
      }
    }
    return names;
  }

  /** Whether one of the metadata files, in the directory of a table, is of another table. */
  private boolean ofAnother(Table table, List metadata) {
    TableMetadata current = ((HasTableOperations) table).operations().current();
    Set own = new HashSet();
    own.add(base(current.metadataFileLocation()));
    Iterator previous = current.previousFiles().iterator();
    while (previous.hasNext()) {
      own.add(base(((TableMetadata.MetadataLogEntry) previous.next()).file()));
    }
    for (int i = 0; i < metadata.size(); i++) {
      String path = (String) metadata.get(i);
      try {
        if (!own.contains(base(path))
            && !Objects.equals(TableMetadataParser.read(table.io(), path).uuid(), current.uuid())) {
          return true;
        }
      } catch (NotFoundException gone) {
        continue; // a commit has removed it meanwhile
      } catch (RuntimeException error) {
        if (ofMetadataFile(error) == error) {
          throw error;
        }
        continue; // a killed commit has not completed it
      }
    }
    return false;
  }

  /**
   * Remove the mirror's files that were last changed before a time and that no snapshot knows; -1: none, because another
   * table has files in the directory. A table that a user has renamed keeps its directory, and most catalogs give a new table
   * of the name the same one.
   */
  public int removeOrphans(Table table, String prefix, long olderThanMillis) throws Exception {
    if (!(table.io() instanceof SupportsPrefixOperations)) {
      return 0;
    }
    // what is listed first and known later is no orphan
    List old = new ArrayList();
    List metadata = new ArrayList();
    String location = table.location();
    Iterator files = ((SupportsPrefixOperations) table.io()).listPrefix(location + "/").iterator();
    while (files.hasNext()) {
      FileInfo file = (FileInfo) files.next();
      String name = base(file.location());
      boolean manifest = name.endsWith(".avro") && file.location().contains("/metadata/");
      if (name.endsWith(".metadata.json")) {
        metadata.add(file.location());
      }
      if (file.createdAtMillis() < olderThanMillis && (manifest || name.startsWith(prefix))) {
        old.add(file.location());
      }
    }
    if (old.isEmpty()) {
      return 0;
    }
    table.refresh();
    if (ofAnother(table, metadata)) {
      return -1;
    }
    Set names = known(table);
    int removed = 0;
    for (int i = 0; i < old.size(); i++) {
      String path = (String) old.get(i);
      if (!names.contains(base(path))) {
        table.io().deleteFile(path);
        removed++;
      }
    }
    return removed;
  }
}
