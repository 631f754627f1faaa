/** A producer of the group of Transactions that dies in its local transaction: name servers, prefix. */
public class TransactionVictim {
    public static void main(String[] args) throws Exception {
        Transactions scenario = new Transactions();
        scenario.nameServers = args[0];
        scenario.prefix = args[1];
        scenario.producer(true).sendMessageInTransaction(Lab.message(scenario.own("t"), "TagC", "victim", "its producer dies"), "arg of victim");
    }
}
